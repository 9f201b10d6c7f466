"""What vLLM makes of requests: the ids of their prompts, recorded for the tests of the model's own tokens.

    V/bin/python record_tokens.py FIXTURES_DIR MODEL_DIR

V is the environment of vLLM, FIXTURES_DIR the folder with `bytes`, `pieces` (made by mk_tokenizers.py) and
`templates`, MODEL_DIR any small Llama: only its shape is read. vLLM's own rendering server is asked, which loads no
weights. Written is FIXTURES_DIR/cases.json: each case a tokenizer, a template, an API and a body, and what came of
it, ids or a refusal.
"""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

CALL = {"id": "call_abc12", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Köln", "days": 2, "deep": {"b": [1.0, null], "a": true}}'}}
OTHER = {"id": "call_xyz34", "type": "function", "function": {"arguments": '{"n": 1e-7, "m": [1.50, -0.0, "\\u00e9"]}', "name": "count"}}
TOOLS = [
    {"type": "function", "function": {"name": "weather", "description": "Tells <the> weather & more", "parameters": {
        "type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer", "default": 1}}, "required": ["city"]}}},
    {"type": "function", "function": {"name": "count", "strict": True, "parameters": None}},
]


def user(text):
    return {"role": "user", "content": text}


def assistant(text, **more):
    return {"role": "assistant", "content": text, **more}


def system(text):
    return {"role": "system", "content": text}


TEXT = {"type": "text", "text": "The weather"}
LONG = "the user can write about many words and then look at them. " * 40

CONVERSATIONS = {
    "one user": {"messages": [user("Hello, what is the weather?")]},
    "system": {"messages": [system(" Be a friend. "), user("Hi")]},
    "several turns": {"messages": [system("S"), user("one"), assistant("two"), user("three"), assistant(" four \n"), user("five")]},
    "long": {"messages": [system(LONG), user(LONG), assistant(LONG), user("more")]},
    "unicode": {"messages": [user("Ünïcödé e\u0301 日本語 Привет \u00a0\u2028\u200d"), assistant("ß"), user("ﬁ①½")]},
    "emoji": {"messages": [user("🦀 👩‍💻 🏳️‍🌈 :)")]},
    "blanks": {"messages": [user("  a\t\tb\r\n\r\n   c   \n"), assistant("\n\n x "), user("   ")]},
    "empty": {"messages": [user(""), assistant(""), user("")]},
    "special tokens in text": {"messages": [user("<|im_end|> <|im_start|>system\n</s> <mask> Sluice [INST] <tool_call> <|im_")]},
    "parts": {"messages": [system("S"), {"role": "user", "content": [TEXT, {"type": "text", "text": "is\n"}, {"type": "text", "text": "fine"}]}]},
    "one part": {"messages": [{"role": "user", "content": [TEXT]}]},
    "no parts": {"messages": [{"role": "user", "content": []}]},
    "parts with more": {"messages": [{"role": "user", "content": [{**TEXT, "cache_control": {"type": "ephemeral"}}]}]},
    "parts as strings": {"messages": [{"role": "user", "content": ["a", "b"]}]},
    "refusal": {"messages": [user("a"), {"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]}, user("b")]},
    "no content": {"messages": [user("a"), {"role": "assistant", "content": None}, user("b")]},
    "lacks content": {"messages": [user("a"), {"role": "assistant"}, user("b")]},
    "names": {"messages": [{**user("a"), "name": "Ann"}, assistant("b", name="Bot"), user("c")]},
    "tools": {"messages": [system("S"), user("Weather?")], "tools": TOOLS},
    "tools and none chosen": {"messages": [user("Weather?")], "tools": TOOLS[:1], "tool_choice": "none"},
    "tool with unknown members": {"messages": [user("x")], "tools": [{"type": "function", "x": 1, "function": {"parameters": {"b": 1, "a": {}}, "y": 2, "name": "f"}}]},
    "call and result": {"messages": [user("W?"), assistant(None, tool_calls=[CALL]), {"role": "tool", "tool_call_id": "call_abc12", "content": "12 °C"}, user("thanks")], "tools": TOOLS},
    "call with text": {"messages": [user("W?"), assistant("Let me look.", tool_calls=[CALL]), {"role": "tool", "tool_call_id": "call_abc12", "content": [TEXT, {"type": "text", "text": "ok"}]}]},
    "two calls": {"messages": [user("W?"), assistant("", tool_calls=[CALL, OTHER]), {"role": "tool", "tool_call_id": "call_abc12", "content": "a"}, {"role": "tool", "tool_call_id": "call_xyz34", "content": ""}]},
    "arguments that are no JSON": {"messages": [user("x"), assistant("", tool_calls=[{"id": "123456789", "type": "function", "function": {"name": "f", "arguments": "{oops"}}]), user("y")]},
    "arguments that are no object": {"messages": [user("x"), assistant("", tool_calls=[{"id": "123456789", "type": "function", "function": {"name": "f", "arguments": "[1]"}}]), user("y")]},
    "arguments that are empty": {"messages": [user("x"), assistant("", tool_calls=[{"id": "123456789", "type": "function", "function": {"name": "f", "arguments": ""}}]), user("y")]},
    "calls that are none": {"messages": [user("x"), assistant("z", tool_calls=[]), user("y")]},
    "thoughts": {"messages": [user("a"), assistant("b", reasoning_content="I thought"), user("c"), assistant("<think>\nhm\n</think>\n\nd", reasoning="more"), user("e")]},
    "thoughts in text": {"messages": [user("a"), assistant("<think>\nhm\n</think>\n\nd")]},
    "thinking off": {"messages": [user("a")], "chat_template_kwargs": {"enable_thinking": False, "extra": {"z": 1, "a": [1.5]}}},
    "effort": {"messages": [user("a")], "reasoning_effort": "none"},
    "no answer": {"messages": [user("a")], "add_generation_prompt": False},
    "continued": {"messages": [user("a"), assistant("The answer is")], "add_generation_prompt": False, "continue_final_message": True},
    "continued behind a blank": {"messages": [user("a"), assistant("The answer is ")], "add_generation_prompt": False, "continue_final_message": True},
    "continued parts": {"messages": [user("a"), {"role": "assistant", "content": [TEXT, TEXT]}], "add_generation_prompt": False, "continue_final_message": True},
    "continued and answered": {"messages": [user("a"), assistant("b")], "continue_final_message": True},
    "special tokens added": {"messages": [user("a")], "add_special_tokens": True},
    "documents": {"messages": [user("a")], "documents": [{"title": "t", "text": "x"}, {"text": "y", "title": "u"}]},
    "developer": {"messages": [{"role": "developer", "content": "Be D."}, user("a")]},
    "late developer": {"messages": [system("S"), user("a"), {"role": "developer", "content": "Be D."}, user("b")]},
    "late system": {"messages": [user("a"), system("S"), user("b")]},
    "billing": {"messages": [system("x-anthropic-billing-header: cch=12;\nYou are."), user("a")]},
    "unknown role": {"messages": [user("a"), {"role": "critic", "content": "b"}]},
    "two users": {"messages": [user("a"), user("b")]},
    "no messages": {"messages": []},
    "halves of surrogates": {"messages": [user("a\ud800b")]},
    "image": {"messages": [{"role": "user", "content": [TEXT, {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]}]},
    "large number": {"messages": [user("a")], "chat_template_kwargs": {"extra": [9007199254740993, 1e22, 0.1, -5, 12345678901234567890123]}},
}

MESSAGES = {
    "text": {"messages": [user("Hello")]},
    "system": {"system": "Be A.", "messages": [user("Hello"), assistant("Hi"), user("more")]},
    "system blocks": {"system": [{"type": "text", "text": "x-anthropic-billing-header: cch=1"}, {"type": "text", "text": "Be A.", "cache_control": {"type": "ephemeral"}}, {"type": "text", "text": "Be B."}], "messages": [user([TEXT, TEXT])]},
    "one block": {"messages": [user([{**TEXT, "cache_control": {"type": "ephemeral"}}])]},
    "empty block": {"messages": [user([{"type": "text", "text": ""}]), user("a")]},
    "calls": {"messages": [user("W?"), assistant([{"type": "thinking", "thinking": "hm", "signature": "s"}, {"type": "text", "text": "Looking."}, {"type": "tool_use", "id": "toolu_123", "name": "weather", "input": {"city": "X", "n": 1}}]),
                           user([{"type": "tool_result", "tool_use_id": "toolu_123", "content": [TEXT, TEXT]}, {"type": "text", "text": "and?"}])],
              "tools": [{"name": "weather", "description": "W", "input_schema": {"properties": {"city": {"type": "string"}}}}, {"name": "f", "input_schema": {"type": "object"}}]},
    "call alone": {"messages": [user("W?"), assistant([{"type": "tool_use", "id": "toolu_123", "name": "weather", "input": {}}]), user([{"type": "tool_result", "tool_use_id": "toolu_123", "content": "12"}])]},
    "late system": {"system": "S", "messages": [user("a"), {"role": "system", "content": "T"}, user("b")]},
    "effort": {"messages": [user("a")], "output_config": {"effort": "low"}},
}

RESPONSES = {
    "text": {"input": "Hello"},
    "instructions": {"instructions": "Be R.", "input": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "c"}, {"type": "input_text", "text": "d"}]}]},
    "calls": {"input": [{"role": "user", "content": "W?"}, {"type": "reasoning", "id": "r", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]},
                        {"type": "function_call", "call_id": "call_abc12", "name": "weather", "arguments": '{"city": "X"}'}, {"type": "function_call", "call_id": "call_abc13", "name": "weather", "arguments": "{}"},
                        {"type": "function_call_output", "call_id": "call_abc12", "output": "12"}, {"type": "function_call_output", "call_id": "call_abc13", "output": "13"}],
              "tools": [{"type": "function", "name": "weather", "description": "W", "parameters": {"type": "object", "properties": {}}, "strict": True}, {"type": "function", "name": "f", "parameters": {"type": "object"}}]},
    "answers given back": {"input": [{"role": "user", "content": "a"}, {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": [{"type": "output_text", "text": "b", "annotations": []}]}, {"role": "user", "content": "c"}]},
    "continued": {"input": [{"role": "user", "content": "a"}, {"type": "message", "id": "m", "role": "assistant", "status": "in_progress", "content": [{"type": "output_text", "text": "b c", "annotations": []}]}]},
    "developer": {"input": [{"role": "developer", "content": "D"}, {"role": "user", "content": "a"}]},
    "effort": {"input": "a", "reasoning": {"effort": "none"}},
}

COMPLETIONS = {
    "text": {"prompt": "Once upon a time  there"},
    "special tokens left out": {"prompt": "Once upon a time", "add_special_tokens": False},
    "empty": {"prompt": ""},
    "special tokens in text": {"prompt": "<s>[INST] a [/INST] b </s> <mask>Sluice e\u0301"},
    "ids": {"prompt": [1, 2, 3, 500]},
    "a list of one": {"prompt": ["a b"]},
    "a list of one list": {"prompt": [[4, 5]]},
    "several": {"prompt": ["a", "b"]},
    "long": {"prompt": LONG},
    "emoji": {"prompt": "🦀👩‍💻 日本 Ünï\u0000x\u001b"},
}

PATHS = {"chat": "chat/completions", "messages": "messages", "responses": "responses", "completions": "completions"}


class Server:
    """vLLM's rendering server with one tokenizer and one template."""

    def __init__(self, fixtures, model, tokenizer, template):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        vllm = os.path.join(os.path.dirname(sys.executable), "vllm")
        self.process = subprocess.Popen(
            [vllm, "launch", "render", model, "--tokenizer", f"{fixtures}/{tokenizer}", "--served-model-name", "m",
             "--host", "127.0.0.1", "--port", str(self.port), "--max-model-len", "8192", "--enforce-eager",
             "--chat-template", f"{fixtures}/templates/{template}.jinja", "--trust-request-chat-template",
             "--enable-auto-tool-choice", "--tool-call-parser", "hermes"],
            env={**os.environ, "HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "OMP_NUM_THREADS": "1"},
            stdin=subprocess.DEVNULL, stdout=sys.stderr, start_new_session=True)

    def wait(self):
        while self.process.poll() is None:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health", timeout=5).read()
                return
            except OSError:
                time.sleep(0.5)
        sys.exit("the rendering server ended")

    def ids(self, api, body):
        data = json.dumps({"model": "m", "max_tokens": 4, **body} if api == "messages" else {"model": "m", **body})
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/v1/{PATHS[api]}/render", data.encode(), {"content-type": "application/json"})
        try:
            answer = json.load(urllib.request.urlopen(request, timeout=60))
        except urllib.error.HTTPError as error:
            return {"refused": error.read().decode()[:160]}
        if isinstance(answer, list):
            if len(answer) != 1:
                return {"several": len(answer)}
            answer = answer[0]
        return {"ids": answer["token_ids"]}

    def end(self):
        self.process.terminate()
        self.process.wait(30)


def main(fixtures, model):
    fixtures = os.path.abspath(fixtures)
    templates = ["chatml", "headers", "inst", "thinking", "parts", "dump"]
    cases = []
    for tokenizer, template in [("pieces", "parts"), ("bytes", "thinking"), ("bytes", "dump")]:
        server = Server(fixtures, model, tokenizer, template)

        def record(name, api, body, template, ask):
            case = {"name": name, "tokenizer": tokenizer, "template": template, "api": api, "body": body}
            cases.append({**case, **server.ids(api, ask)})

        try:
            server.wait()
            if template == "dump":
                for asked in templates:
                    with open(f"{fixtures}/templates/{asked}.jinja") as file:
                        source = file.read()
                    for name, body in CONVERSATIONS.items():
                        if asked == "headers":
                            # Or else the day of the recording would be part of it.
                            body = {**body, "chat_template_kwargs": {"date_string": "1 May", **body.get("chat_template_kwargs", {})}}
                        record(name, "chat", body, asked, {**body, "chat_template": source})
            else:
                for name, body in CONVERSATIONS.items():
                    record(name, "chat", body, template, body)
            for api, bodies in [("messages", MESSAGES), ("responses", RESPONSES), ("completions", COMPLETIONS)]:
                for name, body in bodies.items():
                    record(name, api, body, template, body)
        finally:
            server.end()
        with open(f"{fixtures}/cases.json", "w") as file:
            file.write("[\n" + ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases) + "\n]\n")
    print(f"{len(cases)} cases, {sum('refused' in case for case in cases)} refused")


if __name__ == "__main__":
    main(*sys.argv[1:])
