import { Box, Text } from "@chakra-ui/react";
import { useSearchParams } from "react-router-dom";

import { usePolled } from "./api";
import { Application } from "./Application";
import { Overview } from "./Overview";
import { Problem, UiLink } from "./Parts";
import type { Card } from "./types";

const SELDOM_MS = 60_000;

/** In the navigation: all applications, or the one that the address names. */
const Streams = () => {
  const [asked] = useSearchParams();
  const id = asked.get("application");
  return (
    <Box h="100%" overflowY="auto" p={4}>
      {id === null ? (
        <Overview />
      ) : (
        <>
          <Box mb={3}>
            <UiLink to="?">← all streams</UiLink>
          </Box>
          <Application id={id} key={id} />
        </>
      )}
    </Box>
  );
};

/** On a DAG: its application. */
const Stream = ({ dagId }: { readonly dagId?: string }) => {
  const { data, problem } = usePolled<{ applications: Card[] }>("applications", SELDOM_MS);
  const card = data?.applications.find(({ dags }) => dagId !== undefined && Object.values(dags).includes(dagId));
  return (
    <Box h="100%" overflowY="auto" p={4}>
      {problem === undefined ? undefined : <Problem>{problem}</Problem>}
      {card === undefined ? (
        <Text>{data === undefined ? "Asking…" : `${dagId} is no DAG of a stateful stream.`}</Text>
      ) : (
        <Application id={card.id} key={card.id} />
      )}
    </Box>
  );
};

// By the names of the entries in airflow_provider/plugin.py: Airflow's UI looks for them there.
Reflect.set(globalThis, "Streams", Streams);
Reflect.set(globalThis, "Stream", Stream);
