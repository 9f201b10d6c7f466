"""Drives a server through the Python SDKs that its users have, and exits with 1 if any of them fails.

    python clients.py http://127.0.0.1:PORT [MODEL]

Asks for greedy answers, so that a streamed answer must say the same as a whole one.
"""

import sys

import anthropic
import openai
from langchain_openai import ChatOpenAI

BASE = sys.argv[1]
MODEL = sys.argv[2] if len(sys.argv) > 2 else "tiny"
MESSAGES = [{"role": "user", "content": "hello there"}]
# The Anthropic SDK has no parameter for it.
GREEDY = {"temperature": 0}
failed = []


def check(test):
    name = test.__name__.replace("_", " ")
    try:
        print(f"ok      {name}: {str(test())[:100]!r}", flush=True)
    except Exception as error:  # every failure is one line of the report
        failed.append(name)
        print(f"FAILED  {name}: {type(error).__name__}: {str(error)[:600]}", flush=True)


def main():
    client = openai.OpenAI(base_url=f"{BASE}/v1", api_key="none", max_retries=0, timeout=60)
    claude = anthropic.Anthropic(base_url=BASE, api_key="none", max_retries=0, timeout=60)
    chain = ChatOpenAI(
        model=MODEL, base_url=f"{BASE}/v1", api_key="none", max_tokens=6, temperature=0, max_retries=0, timeout=60
    )

    def chat():
        return client.chat.completions.create(model=MODEL, messages=MESSAGES, max_tokens=6, temperature=0)

    @check
    def openai_models():
        ids = [model.id for model in client.models.list()]
        assert MODEL in ids, ids
        return ids

    @check
    def openai_chat():
        answer = chat()
        assert answer.choices[0].message.content, answer
        assert answer.usage.completion_tokens > 0, answer
        return answer.choices[0].message.content

    @check
    def openai_chat_streamed_says_the_same():
        stream = client.chat.completions.create(
            model=MODEL, messages=MESSAGES, max_tokens=6, temperature=0, stream=True,
            stream_options={"include_usage": True},
        )
        chunks = list(stream)
        text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
        assert text == chat().choices[0].message.content, text
        assert chunks[-1].usage.total_tokens > 0, chunks[-1]
        return text

    @check
    def openai_chat_stream_given_up_early():
        stream = client.chat.completions.create(model=MODEL, messages=MESSAGES, max_tokens=200, stream=True)
        first = next(iter(stream))
        stream.close()
        return first.id

    @check
    def openai_completions():
        answer = client.completions.create(model=MODEL, prompt="hello", max_tokens=6, temperature=0)
        assert answer.choices[0].finish_reason, answer
        return answer.choices[0].text

    @check
    def openai_completions_of_token_ids():
        answer = client.completions.create(model=MODEL, prompt=[5, 6, 7], max_tokens=6, temperature=0)
        assert answer.usage.prompt_tokens == 3, answer.usage
        return answer.choices[0].text

    @check
    def openai_responses():
        answer = client.responses.create(model=MODEL, input="hello", max_output_tokens=6, temperature=0)
        assert answer.output_text, answer
        return answer.output_text

    @check
    def openai_responses_streamed():
        types = [event.type for event in client.responses.create(
            model=MODEL, input="hello", max_output_tokens=6, temperature=0, stream=True
        )]
        assert types[0] == "response.created" and types[-1] == "response.completed", types
        return types[-1]

    @check
    def openai_unknown_model_is_a_not_found_error():
        try:
            client.chat.completions.create(model="no-such-model", messages=MESSAGES)
        except openai.NotFoundError as error:
            return error.body
        raise AssertionError("no error")

    @check
    def anthropic_messages():
        answer = claude.messages.create(model=MODEL, max_tokens=6, messages=MESSAGES, extra_body=GREEDY)
        assert answer.content[0].text and answer.usage.output_tokens > 0, answer
        return answer.content[0].text

    @check
    def anthropic_messages_streamed():
        with claude.messages.stream(model=MODEL, max_tokens=6, messages=MESSAGES, extra_body=GREEDY) as stream:
            text = "".join(stream.text_stream)
            final = stream.get_final_message()
        assert text and final.stop_reason, final
        return text

    @check
    def anthropic_unknown_model_is_a_not_found_error():
        try:
            claude.messages.create(model="no-such-model", max_tokens=6, messages=MESSAGES)
        except anthropic.NotFoundError as error:
            assert error.body["type"] == "error", error.body
            return error.body
        raise AssertionError("no error")

    @check
    def langchain_invoke():
        answer = chain.invoke("hi")
        assert answer.content, answer
        return answer.content

    @check
    def langchain_stream():
        text = "".join(chunk.content for chunk in chain.stream("hi"))
        assert text == chain.invoke("hi").content, text
        return text

    print(f"{len(failed)} failed", flush=True)
    sys.exit(1 if failed else 0)


main()
