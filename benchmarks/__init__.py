"""Speed, side by side with the engines and adapters that people would otherwise use."""
