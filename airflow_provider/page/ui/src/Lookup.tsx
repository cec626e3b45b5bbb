import { Box, Button, Heading, Input, NativeSelect, Text } from "@chakra-ui/react";
import { useState } from "react";

import { lookUp } from "./api";
import { Problem, Section } from "./Parts";
import type { Details, LookupAnswer } from "./types";

/** More is refused. */
const MOST_CHARS = 1_000;

const Found = ({ answer }: { readonly answer: LookupAnswer }) => (
  <Box aria-live="polite" data-testid="looked-up" mt={3}>
    <Text fontFamily="mono" fontSize="sm" wordBreak="break-all">
      {answer.key.join(", ") || "the empty key"}
    </Text>
    {answer.found.map((one) => (
      <Box key={one.task} mb={2}>
        <Heading as="h4" size="sm" wordBreak="break-word">
          Task {one.task} on {one.instance}: {one.stands}
        </Heading>
        {one.states.map((state) => (
          <Box key={state.name} mt={1}>
            {one.states.length === 1 ? undefined : (
              <Text fontFamily="mono" fontSize="sm" wordBreak="break-all">
                {state.name}
              </Text>
            )}
            <Box as="pre" bg="bg.subtle" borderRadius="md" fontSize="sm" p={2} whiteSpace="pre-wrap" wordBreak="break-word">
              {state.value}
            </Box>
          </Box>
        ))}
        {one.complete ? undefined : <Text>There is more of it than an answer takes.</Text>}
      </Box>
    ))}
    {answer.found.length === 0 && Object.keys(answer.unknown).length === 0 ? (
      <Text>The store {answer.store} holds nothing of this key.</Text>
    ) : undefined}
    {Object.entries(answer.unknown).map(([task, why]) => (
      <Text key={task} wordBreak="break-word">
        Task {task}: {why}
      </Text>
    ))}
  </Box>
);

const Field = ({
  label,
  onChange,
  value,
}: {
  readonly label: string;
  readonly onChange: (value: string) => void;
  readonly value: string;
}) => (
  <label>
    <Text as="span" display="block" fontSize="xs">
      {label}
    </Text>
    <Input
      autoComplete="off"
      maxLength={MOST_CHARS}
      onChange={(event) => onChange(event.target.value)}
      size="sm"
      value={value}
    />
  </label>
);

/** What a store holds of a key, for those who may see values of records. */
export const Lookup = ({ details }: { readonly details: Details }) => {
  const stores = (details.stages ?? []).flatMap(({ key, store }) => (store === null ? [] : [{ key, store }]));
  const [store, setStore] = useState(stores[0]?.store ?? "state");
  const [texts, setTexts] = useState<Record<string, string>>({});
  const [answer, setAnswer] = useState<LookupAnswer | null>(null);
  const [problem, setProblem] = useState<string>();
  const [asked, setAsked] = useState(false);
  const columns = stores.find((one) => one.store === store)?.key ?? ["key"];

  const ask = async (): Promise<void> => {
    setAsked(true);
    setProblem(undefined);
    setAnswer(null);
    try {
      setAnswer(await lookUp(details.id, store, columns.map((name) => texts[name] ?? "")));
    } catch (error) {
      setProblem(String(error instanceof Error ? error.message : error));
    }
    setAsked(false);
  };

  return (
    <Section id="lookup" title="Look up a key">
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void ask();
        }}
      >
        <Box alignItems="end" display="flex" flexWrap="wrap" gap={2}>
          {stores.length === 0 ? (
            <Field label="store" onChange={setStore} value={store} />
          ) : (
            <label>
              <Text as="span" display="block" fontSize="xs">
                store
              </Text>
              <NativeSelect.Root size="sm">
                <NativeSelect.Field onChange={(event) => setStore(event.target.value)} value={store}>
                  {stores.map((one) => (
                    <option key={one.store}>{one.store}</option>
                  ))}
                </NativeSelect.Field>
                <NativeSelect.Indicator />
              </NativeSelect.Root>
            </label>
          )}
          {columns.map((name) => (
            <Field
              key={name}
              label={name}
              onChange={(text) => setTexts((before) => ({ ...before, [name]: text }))}
              value={texts[name] ?? ""}
            />
          ))}
          <Button disabled={asked} size="sm" type="submit" variant="outline">
            Look up
          </Button>
        </Box>
      </form>
      {asked ? <Text mt={2}>Asking its instances…</Text> : undefined}
      {problem === undefined ? undefined : <Problem>{problem}</Problem>}
      {answer === null ? undefined : <Found answer={answer} />}
    </Section>
  );
};
