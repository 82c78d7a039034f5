"""The test error of a network on a mixture, before any is trained."""
