#!/usr/bin/env python3
"""The server as a client sees it: a real process, real sockets. usage: server_test.py HOCKET MODEL"""
import http.client
import json
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import unittest

HOCKET, MODEL = sys.argv[1:3]
FLAGS = ["--data-parallel-size", "2", "--enable-expert-parallel", "--enable-dbo", "--dbo-decode-token-threshold", "1",
         "--dbo-prefill-token-threshold", "1"]
# ends with <|im_end|>
QUESTION = ("<|im_start|>user\nFinn has 8 rows with 3 plates in each. How many plates does Finn have now?<|im_end|>\n"
            "<|im_start|>assistant\n")


class Server:
    def __init__(self, *flags):
        self.process = subprocess.Popen([HOCKET, "serve", MODEL, "--port", "0", *FLAGS, *flags], stderr=subprocess.PIPE,
                                        stdout=subprocess.DEVNULL, text=True)
        self.log = []
        for line in self.process.stderr:
            self.log.append(line)
            if match := re.search(r"Listening on http://127\.0\.0\.1:(\d+)", line):
                self.port = int(match[1])
                break
        else:
            raise RuntimeError("the server did not start:\n" + "".join(self.log))
        threading.Thread(target=lambda: self.log.extend(self.process.stderr), daemon=True).start()

    def request(self, method, path, body=None, headers=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request(method, path, body if isinstance(body, (bytes, str)) or body is None else json.dumps(body),
                           headers or {})
        response = connection.getresponse()
        data = response.read()
        connection.close()
        return response, data

    def complete(self, **body):
        response, data = self.request("POST", "/v1/completions", {"model": "tiny-moe-fp8", "temperature": 0, **body})
        return response.status, json.loads(data)

    def metric(self, pattern):
        text = self.request("GET", "/metrics")[1].decode()
        return sum(float(value) for value in re.findall(rf"^{pattern}[^\n]* (\S+)$", text, re.M))

    def stop(self, sig=signal.SIGTERM, timeout=30):
        self.process.send_signal(sig)
        return self.process.wait(timeout)


def wait_for(condition, seconds=30):
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError("the condition did not come true")
        time.sleep(0.02)


class ServerTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server()

    @classmethod
    def tearDownClass(cls):
        assert cls.server.stop() == 0

    def test_completion_answers(self):
        status, body = self.server.complete(prompt=QUESTION, max_tokens=64)
        self.assertEqual(status, 200, body)
        self.assertIn("#### 24", body["choices"][0]["text"])
        self.assertEqual(body["choices"][0]["finish_reason"], "stop")
        usage = body["usage"]
        self.assertEqual(usage["total_tokens"], usage["prompt_tokens"] + usage["completion_tokens"])
        self.assertEqual(body["object"], "text_completion")

    def test_stream_equals_plain(self):
        plain = self.server.complete(prompt=QUESTION, max_tokens=40)[1]
        response, data = self.server.request("POST", "/v1/completions", {
            "model": "tiny-moe-fp8", "prompt": QUESTION, "max_tokens": 40, "temperature": 0, "stream": True,
            "stream_options": {"include_usage": True}})
        self.assertEqual(response.status, 200)
        self.assertTrue(response.getheader("Content-Type").startswith("text/event-stream"))
        events = data.decode().split("\n\n")
        self.assertEqual(events[-2:], ["data: [DONE]", ""])
        chunks = [json.loads(event[len("data: "):]) for event in events[:-2]]
        self.assertEqual(chunks[-1]["choices"], [])
        self.assertEqual(chunks[-1]["usage"], plain["usage"])
        tokens = chunks[:-1]
        self.assertEqual(len(tokens), plain["usage"]["completion_tokens"])
        self.assertEqual("".join(c["choices"][0]["text"] for c in tokens), plain["choices"][0]["text"])
        self.assertEqual([c["choices"][0]["finish_reason"] for c in tokens if c["choices"][0]["finish_reason"]],
                         [plain["choices"][0]["finish_reason"]])

    def test_many_clients_get_what_one_gets(self):
        prompts = [f"Question: Omar has {n} stamps. Omar sells 3 stamps. How many stamps does Omar have now?\nAnswer:"
                   for n in range(10, 34)]
        alone = [self.server.complete(prompt=p, max_tokens=48)[1]["choices"][0]["text"] for p in prompts]
        together = [None] * len(prompts)

        def ask(i):
            together[i] = self.server.complete(prompt=prompts[i], max_tokens=48)[1]["choices"][0]["text"]

        threads = [threading.Thread(target=ask, args=(i,)) for i in range(len(prompts))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(alone, together)
        self.assertGreater(self.server.metric(r"hocket_dbo_steps_total\{[^}]*outcome=\"split\""), 0)

    def test_seeded_sampling_repeats(self):
        first = self.server.complete(prompt=QUESTION, max_tokens=24, temperature=1.0, seed=5)[1]
        again = self.server.complete(prompt=QUESTION, max_tokens=24, temperature=1.0, seed=5)[1]
        self.assertEqual(first["choices"][0]["text"], again["choices"][0]["text"])

    def test_stop_string_and_limits(self):
        body = self.server.complete(prompt=QUESTION, max_tokens=64, stop=["####"])[1]
        self.assertNotIn("####", body["choices"][0]["text"])
        self.assertEqual(body["choices"][0]["stop_reason"], "####")
        body = self.server.complete(prompt=QUESTION, max_tokens=7, ignore_eos=True)[1]
        self.assertEqual(body["usage"]["completion_tokens"], 7)
        self.assertEqual(body["choices"][0]["finish_reason"], "length")

    def test_bad_input_is_refused_by_name(self):
        for body, status, words in [
            ({"prompt": ""}, 400, "prompt"),
            ({"prompt": [1, 99999]}, 400, "Token id 99999 is out of vocabulary"),
            ({"prompt": "x", "temperature": -1}, 400, "temperature"),
            ({"prompt": "x" * 20000}, 400, "maximum context length is 4096 tokens"),
            ({"prompt": "x", "model": "other"}, 404, "The model `other` does not exist."),
        ]:
            got, answer = self.server.complete(**body)
            self.assertEqual(got, status, answer)
            self.assertIn(words, answer["error"]["message"])
        for raw in (b"{", b"\xff\xfe", b'{"prompt": "a"} x', b'{"prompt": "\\ud800"}'):
            response, data = self.server.request("POST", "/v1/completions", raw)
            self.assertEqual(response.status, 400, data)
            self.assertEqual(json.loads(data)["error"]["code"], 400)
        self.assertEqual(self.server.request("GET", "/nothing")[0].status, 404)
        self.assertEqual(self.server.request("GET", "/v1/completions")[0].status, 405)

    def test_a_closed_socket_aborts(self):
        before = self.server.metric("vllm:request_success_total")
        body = json.dumps({"model": "tiny-moe-fp8", "prompt": "a", "max_tokens": 4000, "ignore_eos": True, "stream": True})
        connection = socket.create_connection(("127.0.0.1", self.server.port))
        connection.sendall(f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
        self.assertIn(b"200", connection.recv(64))
        connection.close()
        wait_for(lambda: self.server.metric("vllm:num_requests_running") == 0 and
                 self.server.metric(r"vllm:kv_cache_usage_perc") == 0)
        self.assertEqual(self.server.metric("vllm:request_success_total"), before + 1)  # finished_reason="abort"

    def test_models_health_version(self):
        self.assertEqual(self.server.request("GET", "/health")[0].status, 200)
        models = json.loads(self.server.request("GET", "/v1/models")[1])
        self.assertEqual(models["data"][0]["id"], "tiny-moe-fp8")
        self.assertEqual(models["data"][0]["max_model_len"], 4096)
        self.assertIn("version", json.loads(self.server.request("GET", "/version")[1]))


class LifeTest(unittest.TestCase):
    def test_sigterm_drains(self):
        server = Server()
        result = {}

        def ask():
            result["body"] = server.complete(prompt=QUESTION, max_tokens=400, ignore_eos=True)

        thread = threading.Thread(target=ask)
        thread.start()
        wait_for(lambda: server.metric("vllm:num_requests_running") > 0)
        self.assertEqual(server.stop(), 0)
        thread.join()
        self.assertEqual(result["body"][0], 200)
        self.assertEqual(result["body"][1]["usage"]["completion_tokens"], 400)

    def test_port_in_use_is_named(self):
        server = Server()
        done = subprocess.run([HOCKET, "serve", MODEL, "--port", str(server.port)], capture_output=True, text=True,
                              timeout=60, check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(str(server.port), done.stderr.strip().splitlines()[-1])
        self.assertIn("--port", done.stderr.strip().splitlines()[-1])
        self.assertEqual(server.stop(signal.SIGINT), 0)


unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
