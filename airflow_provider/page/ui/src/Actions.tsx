import { Box, Button, Heading, Text } from "@chakra-ui/react";
import { useEffect, useRef, useState } from "react";

import { startRun, type Run } from "./api";
import { Problem, Section } from "./Parts";
import { Started } from "./Runs";
import type { Details } from "./types";

/** A run that can be started: whatever is not said here is as the DAG's form has it. */
interface Action {
  dag: string;
  label: string;
  does: string;
  conf: Record<string, unknown>;
  /** Chooses instances: one, or those that are to run. */
  chooses?: "one" | "some";
}

const DRILL = "drill_";

function actionsOf(details: Details, mayStart: string[]): Action[] {
  const drills = Object.keys(details.dags)
    .filter((name) => name.startsWith(DRILL))
    .map((name) => ({
      conf: {},
      dag: name,
      does:
        "A failure is made now, on the running application, of the kind that the drill is named after: the tasks that it " +
        "hits stand still until they are moved, and what that costs is measured. It chooses the instance by itself, and " +
        "is skipped where that would be dangerous.",
      label: `Drill: ${name.slice(DRILL.length)}`,
    }));
  const all: Action[] = [
    ...drills,
    {
      chooses: "one",
      conf: {},
      dag: "failover",
      does:
        "Where something is wrong with this instance or its tasks, that is answered. Where nothing is, all its tasks are " +
        "moved off it, to their warm standbys.",
      label: "Promote standbys",
    },
    {
      conf: { dry_run: true },
      dag: "upgrade",
      does: "Nothing is changed: each instance's task says what differs from the DAG file.",
      label: "Upgrade: dry run",
    },
    {
      conf: { dry_run: false },
      dag: "upgrade",
      does: "One instance after the other is restarted as the DAG file describes it.",
      label: "Upgrade",
    },
    {
      chooses: "some",
      conf: {},
      dag: "scale",
      does: "It runs on these instances afterwards: those that do not run are started, the others hand over and stop.",
      label: "Scale",
    },
    {
      conf: { action: "stop" },
      dag: "operate",
      does: "All instances stop: nothing is processed until the deploy DAG is run.",
      label: "Stop",
    },
  ];
  return all.filter((action) => action.dag in details.dags && mayStart.includes(action.dag));
}

const Confirmation = ({
  action,
  details,
  onEnd,
}: {
  readonly action: Action;
  readonly details: Details;
  readonly onEnd: (run?: Run) => void;
}) => {
  const names = (details.hosts ?? []).map((host) => host.instance);
  const [chosen, setChosen] = useState<string[]>(action.chooses === "one" ? names.slice(0, 1) : names);
  const [problem, setProblem] = useState<string>();
  const [asked, setAsked] = useState(false);
  const place = useRef<HTMLDivElement>(null);
  useEffect(() => place.current?.focus(), []);

  const start = async (): Promise<void> => {
    setAsked(true);
    const of = action.chooses === "one" ? { instance: chosen[0] } : action.chooses === "some" ? { instances: chosen } : {};
    try {
      onEnd(await startRun(details.dags[action.dag] ?? "", { ...action.conf, ...of }));
    } catch (error) {
      setProblem(String(error instanceof Error ? error.message : error));
      setAsked(false);
    }
  };

  return (
    <Box
      aria-labelledby="confirm-title"
      borderColor="border.emphasized"
      borderRadius="md"
      borderWidth="1px"
      data-testid="confirmation"
      mt={3}
      onKeyDown={(event) => {
        if (event.key === "Escape") onEnd();
      }}
      p={3}
      ref={place}
      role="group"
      tabIndex={-1}
    >
      <Heading as="h4" id="confirm-title" size="sm">
        {action.label}: {details.id}?
      </Heading>
      <Text>{action.does}</Text>
      {action.chooses === undefined ? undefined : (
        <Box as="fieldset" mt={2}>
          <legend>Instances</legend>
          {names.map((name) => (
            <label key={name} style={{ display: "block" }}>
              <input
                checked={chosen.includes(name)}
                name="instance"
                onChange={(event) =>
                  setChosen(
                    action.chooses === "one"
                      ? [name]
                      : event.target.checked
                        ? [...chosen, name]
                        : chosen.filter((other) => other !== name),
                  )
                }
                type={action.chooses === "one" ? "radio" : "checkbox"}
              />{" "}
              {name}
            </label>
          ))}
        </Box>
      )}
      {problem === undefined ? undefined : <Problem>{problem}</Problem>}
      <Box display="flex" flexWrap="wrap" gap={2} mt={3}>
        <Button
          disabled={asked || (action.chooses !== undefined && chosen.length === 0)}
          onClick={() => void start()}
          size="sm"
        >
          Yes, start the run
        </Button>
        <Button onClick={() => onEnd()} size="sm" variant="outline">
          No
        </Button>
      </Box>
    </Box>
  );
};

/** Buttons for those who may start a run; nothing for others. */
export const Actions = ({ details, mayStart }: { readonly details: Details; readonly mayStart: string[] }) => {
  const [action, setAction] = useState<Action | null>(null);
  const [started, setStarted] = useState<Run | null>(null);
  const actions = actionsOf(details, mayStart);
  if (actions.length === 0) return undefined;
  return (
    <Section id="actions" title="Do something">
      <Box display="flex" flexWrap="wrap" gap={2}>
        {actions.map((one) => (
          <Button
            key={one.label}
            onClick={() => {
              setStarted(null);
              setAction(one);
            }}
            size="sm"
            variant="outline"
          >
            {one.label}
          </Button>
        ))}
      </Box>
      {action === null ? undefined : (
        <Confirmation
          action={action}
          details={details}
          key={action.label}
          onEnd={(run) => {
            setAction(null);
            setStarted(run ?? null);
          }}
        />
      )}
      {started === null ? undefined : <Started key={started.runId} run={started} />}
    </Section>
  );
};
