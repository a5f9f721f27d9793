"""How fast a bundle can be: what a step reads and computes, what a machine allows, a prediction."""
