"""Where results and records lie, as a block of Prefect's: a form with secrets instead of variables on every worker.

Prefect imports this file with itself (entry point ``prefect.collections``), so it imports nothing else of ours.
"""

from __future__ import annotations

import os

from prefect.blocks.core import Block
from pydantic import Field, SecretStr

NAMED_BY = "EVENFOLD_STORE"


class EvenfoldStore(Block):
    """The shared results and the MLflow server of a project, with what opens them.

    A run whose environment says ``EVENFOLD_STORE=<name of the block>`` uses them; a field that is empty leaves the
    environment's own variable as it is.

    Example:
        ```python
        from evenfold.tasks.results.block import EvenfoldStore

        EvenfoldStore(results="s3://models/evenfold").save("models")
        ```
    """

    _block_type_name = "Evenfold Store"
    _block_type_slug = "evenfold-store"
    _description = "Where evenfold keeps shared results, and which MLflow server records them."

    results: str | None = Field(default=None, description="A folder, or s3://bucket/folder (EVENFOLD_RESULTS).")
    tracking_uri: str | None = Field(default=None, description="MLflow's server (MLFLOW_TRACKING_URI).")
    tracking_username: str | None = Field(default=None, description="Its user.")
    tracking_password: SecretStr | None = Field(default=None, description="That user's password.")
    access_key_id: str | None = Field(default=None, description="The bucket's key (AWS_ACCESS_KEY_ID).")
    secret_access_key: SecretStr | None = Field(default=None, description="Its secret (AWS_SECRET_ACCESS_KEY).")
    endpoint_url: str | None = Field(default=None, description="A store of your own that speaks S3's protocol.")

    def variables(self) -> dict[str, str]:
        """Return the variables of the environment that say the same; passwords are among them."""
        given = {
            "EVENFOLD_RESULTS": self.results,
            "MLFLOW_TRACKING_URI": self.tracking_uri,
            "MLFLOW_TRACKING_USERNAME": self.tracking_username,
            "MLFLOW_TRACKING_PASSWORD": self.tracking_password,
            "AWS_ACCESS_KEY_ID": self.access_key_id,
            "AWS_SECRET_ACCESS_KEY": self.secret_access_key,
            "AWS_ENDPOINT_URL": self.endpoint_url,
        }
        settings = {
            name: value.get_secret_value() if isinstance(value, SecretStr) else value for name, value in given.items()
        }
        return {name: value for name, value in settings.items() if value}

    def use(self) -> None:
        """Let this process, and the processes that it starts, use the store."""
        os.environ.update(self.variables())


def use_named_store() -> None:
    """Use the block that ``EVENFOLD_STORE`` names, if it names one. Raises ValueError for a name that there is not."""
    name = os.environ.get(NAMED_BY)
    if name:
        EvenfoldStore.load(name).use()  # type: ignore[union-attr]
