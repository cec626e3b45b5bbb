import { Box, Text } from "@chakra-ui/react";
import { useEffect, useState } from "react";

import { failedRuns, outcomesOf, runState, type Run } from "./api";
import { ago } from "./format";
import { runPath, Section, UiLink } from "./Parts";

const OVER = ["success", "failed"];
const LOOK_MS = 2_000;

const RunLink = ({ run: { dagId, runId } }: { readonly run: Run }) => (
  <>
    {dagId}: <UiLink to={runPath(dagId, runId)}>{runId}</UiLink>
  </>
);

/** A run that was started here, and what becomes of it: its state, and what its tasks say of themselves. */
export const Started = ({ run }: { readonly run: Run }) => {
  const [state, setState] = useState("queued");
  const [said, setSaid] = useState<string[]>([]);
  const over = OVER.includes(state);
  useEffect(() => {
    if (over) {
      outcomesOf(run).then(setSaid, () => undefined); // the run itself says it, too
      return undefined;
    }
    const timer = setInterval(() => {
      runState(run).then(setState, () => undefined); // one that is not answered is asked again
    }, LOOK_MS);
    return () => clearInterval(timer);
  }, [over, run]);
  return (
    <Box data-testid="started" mt={3} role="status">
      <Text>
        <RunLink run={run} />, {state}
      </Text>
      {said.map((line) => (
        <Text key={line} wordBreak="break-word">
          {line}
        </Text>
      ))}
    </Box>
  );
};

const FAILED_EVERY_MS = 15_000;
const DAY_MS = 86_400_000;

/** The runs that failed within a day, whoever started them: what was to be done then was not done. */
export const FailedRuns = ({ dags }: { readonly dags: Record<string, string> }) => {
  const [runs, setRuns] = useState<Run[]>([]);
  const ids = Object.values(dags).sort().join(" ");
  useEffect(() => {
    const ask = (): void => {
      if (!document.hidden) failedRuns(ids.split(" "), Date.now() - DAY_MS).then(setRuns, () => undefined);
    };
    ask();
    const timer = setInterval(ask, FAILED_EVERY_MS);
    return () => clearInterval(timer);
  }, [ids]);
  return runs.length === 0 ? undefined : (
    <Section id="failed-runs" title="Runs that failed within a day">
      <Box as="ul" ms={4}>
        {runs.map((run) => (
          <Box as="li" key={`${run.dagId}/${run.runId}`} wordBreak="break-word">
            {ago(run.beganAtMs)}: <RunLink run={run} />
          </Box>
        ))}
      </Box>
    </Section>
  );
};
