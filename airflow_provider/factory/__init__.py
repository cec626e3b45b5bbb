"""One call an application: the DAGs that deploy, upgrade, scale, stop, fail over, repair, rehearse and watch it.

::

    from airflow_provider import Drill, Instance, Slo, stream_dags

    stream_dags("orders", job="jobs/orders.py", source_topics=["orders"], instances=[Instance("a"), Instance("b")])
"""

from airflow_provider.control.outlook.slo import Slo
from airflow_provider.factory.dags import StreamDags, stream_dags
from airflow_provider.factory.spec import Callbacks, Drill, Instance

__all__ = ["Callbacks", "Drill", "Instance", "Slo", "StreamDags", "stream_dags"]
