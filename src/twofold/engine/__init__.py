"""The only room that knows Qdrant: connections, collections, requests and answers."""
