"""What is trained and what was learnt: models, scores, estimates. Pure."""
