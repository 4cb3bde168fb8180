// Finds the words that a text uses most and, where there is a dictionary, says what the first one means.

import { Failure, HostCallError, log, skill, step, tools } from "skillrun-sdk";

interface Input {
  text: string;
  top?: number;
}

interface Word {
  word: string;
  count: number;
}

interface Output {
  words: Word[];
  /** What the first word means; null where nobody can say. */
  definition: string | null;
}

const inputSchema = {
  type: "object",
  properties: {
    text: { type: "string", minLength: 1, maxLength: 100_000 },
    top: { type: "integer", minimum: 1, maximum: 100, description: "How many words are wanted." },
  },
  required: ["text"],
  additionalProperties: false,
};

const outputSchema = {
  type: "object",
  properties: {
    words: {
      type: "array",
      items: {
        type: "object",
        properties: { word: { type: "string" }, count: { type: "integer" } },
        required: ["word", "count"],
      },
    },
    definition: { type: ["string", "null"] },
  },
  required: ["words", "definition"],
};

export const handler = skill<Input>({
  name: "new-skill",
  version: "0.1.0",
  description: "Finds the words that a text uses most.",
  inputSchema,
  outputSchema,

  run({ text, top = 3 }): Output {
    const words = step("count", () => count(text, top));
    const first = words[0];
    if (!first) throw new Failure("the text has no words", "no_words");
    log.info("counted the words", { first: first.word });
    return { words, definition: define(first.word) };
  },
});

/** The words that are used most, the most frequent first. */
function count(text: string, top: number): Word[] {
  const counts = new Map<string, number>();
  for (const word of text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? []) {
    counts.set(word, (counts.get(word) ?? 0) + 1);
  }
  const words = [...counts].map(([word, count]) => ({ word, count }));
  // Those that are used equally often stay in the order of the alphabet.
  words.sort((a, b) => b.count - a.count || (a.word < b.word ? -1 : 1));
  return words.slice(0, top);
}

/**
 * What a word means. The skill is of use without it, so neither a dictionary that was not granted nor one
 * that fails stops it.
 */
function define(word: string): string | null {
  try {
    const answer = tools.invoke("dictionary__define", { word });
    if (!answer.isError) return answer.text;
    log.warn("no definition", { error: answer.text });
  } catch (error) {
    const kinds = ["denied", "not-found", "failed"];
    if (!(error instanceof HostCallError && kinds.includes(error.kind))) throw error;
  }
  return null;
}
