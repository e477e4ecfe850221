"""What the product needs besides Python packages: a Java runtime, Maven, jars by pom.

Each `ensure_…` finds it, or installs it where it may, or says in one sentence what to install.
Never: writing into the repository; everything fetched goes to `deploy.paths.cache_folder()`.
"""
