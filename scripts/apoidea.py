"""Client of the control API of an Apoidea peer, in one file without dependencies (Python 3.8 or later).

    from apoidea import Peer
    peer = Peer("~/.local/share/apoidea")        # a data directory, or Peer("tcp:HOST:PORT", token="...")
    job = peer.post(["https://example.org/"], max_pages=100)
    for progress in peer.wait(job["id"]):
        print(progress["done"], "URLs done")
    for url in peer.urls(job=job["id"]):
        print(url["url"], url["outcome"])

Every operation of docs/openapi.json can be called by its name with call() and stream(); the other methods are shorter forms.
As a program it prints the reply to one request: apoidea.py DIR GET /v1/status ring=1
"""

import http.client
import json
import os
import socket
import sys
from urllib.parse import quote, urlencode


class Error(Exception):
    """A failure reported by the peer; kind is usage, refused, no_peer, timeout, alone or failed."""

    def __init__(self, kind, text):
        super().__init__(text)
        self.kind = kind


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path, timeout):
        super().__init__("peer", timeout=timeout)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Peer:
    def __init__(self, where, token=None, timeout=None):
        """where is a data directory, a socket, or tcp:HOST:PORT; timeout in seconds applies to each read."""
        self.where = os.path.expanduser(where)
        self.token = token
        self.timeout = timeout

    def _connection(self):
        if self.where.startswith("tcp:"):
            host, _, port = self.where[len("tcp:"):].rpartition(":")
            return http.client.HTTPConnection(host.strip("[]"), int(port), timeout=self.timeout)
        path = self.where
        if os.path.isdir(path):
            path = os.path.join(path, "apoidea.sock")
        return _UnixConnection(path, self.timeout)

    def request(self, method, path, body=None, **query):
        """Sends a request and returns the response, to be read and closed. Raises Error."""
        headers = {}
        if self.token:
            headers["Authorization"] = "Bearer " + self.token
        if body is not None:
            body = json.dumps(body)
            headers["Content-Type"] = "application/json"
        query = {k: ("1" if v is True else v) for k, v in query.items() if v is not None and v is not False}
        connection = self._connection()
        try:
            connection.request(method, path + ("?" + urlencode(query) if query else ""), body, headers)
            response = connection.getresponse()
        except (FileNotFoundError, ConnectionError) as err:
            connection.close()
            raise Error("no_peer", "no peer is running at %s: %s" % (self.where, err)) from err
        if response.status >= 300:
            text = response.read().decode("utf-8", "replace")
            connection.close()
            try:
                failure = json.loads(text)
                raise Error(failure["kind"], failure["error"])
            except (ValueError, KeyError, TypeError):
                raise Error("failed", "%d %s" % (response.status, text.strip())) from None
        return response

    def call(self, method, path, body=None, **query):
        """Returns the JSON document of a response."""
        with self.request(method, path, body, **query) as response:
            return json.load(response)

    def stream(self, path, **query):
        """Yields the documents of a stream. Raises Error if it ends early."""
        with self.request("GET", path, **query) as response:
            for line in response:
                document = json.loads(line)
                if document.get("end") is True:
                    if document.get("error"):
                        raise Error(document["error"]["kind"], document["error"]["error"])
                    return
                yield document
        raise Error("failed", "the peer went away")

    def status(self, ring=False):
        return self.call("GET", "/v1/status", ring=ring)

    def jobs(self):
        return self.call("GET", "/v1/jobs")

    def job(self, id):
        return self.call("GET", "/v1/jobs/" + quote(id, safe=""))

    def set_job(self, id, action):
        """action is pause, resume or cancel."""
        return self.call("POST", "/v1/jobs/%s/%s" % (quote(id, safe=""), quote(action, safe="")))

    def post(self, urls, **spec):
        """Posts a job; spec has the other fields of JobSpec in docs/openapi.json."""
        return self.call("POST", "/v1/jobs", dict(spec, urls=list(urls)))

    def wait(self, job=""):
        """Yields the progress of a job, or of all, until no work is left."""
        return self.stream("/v1/wait", job=job)

    def hosts(self, ring=True):
        return self.stream("/v1/hosts", ring=ring)

    def why(self, url):
        return self.call("GET", "/v1/why", url=url)

    def archives(self, ring=True):
        return self.call("GET", "/v1/archives", ring=ring)

    def urls(self, job=None, ring=True):
        """Yields the outcome of each finished URL, of one job or of all. A missing member raises Error, since its URLs are missing too."""
        archives = self.archives(ring)
        for missing in archives["missing"] or []:
            raise Error("failed", "peer %s is missing: %s" % (missing["peer"], missing["error"]))
        for peer in archives["peers"]:
            after = None if peer["role"] != "worker" else ""
            while after != "":
                page = self.call("GET", "/v1/urls", peer=peer["peer"], after=after)
                for url in page["urls"] or []:
                    if job is None or url["job"] == job:
                        yield url
                after = page.get("after", "")

    def read_archive(self, peer, name, out, size=None):
        """Copies an archive file of a peer to the open file out. Raises Error if fewer bytes came than size, the value of archives()."""
        path = "/v1/archives/%s/%s" % (quote(peer, safe=""), quote(name, safe=""))
        copied = 0
        with self.request("GET", path, offset=0) as response:
            while True:
                part = response.read(1 << 16)
                if not part:
                    break
                out.write(part)
                copied += len(part)
        if size is not None and copied < size:
            raise Error("failed", "%s: %d of %d bytes" % (name, copied, size))


def main(args):
    if len(args) < 3 or args[0] in ("-h", "--help"):
        sys.exit(__doc__)
    where, method, path = args[:3]
    query = dict(arg.split("=", 1) for arg in args[3:])
    try:
        with Peer(where, os.environ.get("APOIDEA_TOKEN")).request(method, path, **query) as response:
            for line in response:
                sys.stdout.write(line.decode())
    except Error as err:
        sys.exit("%s: %s" % (err.kind, err))


if __name__ == "__main__":
    main(sys.argv[1:])
