"""What runs in Spark's tasks: judging, writing, and what a worker keeps between tasks."""
