"""How well Twofold and its peers answer, on the same documents, questions and dense vectors."""
