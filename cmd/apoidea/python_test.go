//go:build unix

package main

import (
	"os/exec"
	"strings"
	"testing"
)

// pythonProgram uses each kind of request of the Python client: a document, a body, a stream, pages
// of a list, a file, a failure.
const pythonProgram = `
import io, os, sys
sys.path.insert(0, "../../scripts")
import apoidea
peer = apoidea.Peer(sys.argv[1], timeout=60)
print("state", peer.status()["role"])
job = peer.post([sys.argv[2]], max_pages=50)
progress = list(peer.wait(job["id"]))
print("progress", len(progress) > 0)
print("job", peer.job(job["id"])["done"])
print("urls", len(list(peer.urls(job=job["id"]))), len(list(peer.urls(job="none"))))
print("hosts", len(list(peer.hosts())))
for p in peer.archives()["peers"]:
    for f in p["files"]:
        out = io.BytesIO()
        peer.read_archive(p["peer"], f["name"], out, f["bytes"])
        print("archive", out.getvalue()[:2] == b"\x1f\x8b")
try:
    peer.job("ffff")
except apoidea.Error as err:
    print("error", err.kind)
try:
    apoidea.Peer(sys.argv[1] + "/nowhere").status()
except apoidea.Error as err:
    print("error", err.kind)
`

// TestPythonClient: scripts/apoidea.py posts a job to a real peer, follows it and reads its
// results.
//
// Slow: starts a process.
func TestPythonClient(t *testing.T) {
	t.Parallel()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not installed")
	}
	dir := t.TempDir()
	url, _ := pagesOf(t, 12)
	peer(t, dir, "--dashboard", "off")
	cmd := exec.CommandContext(t.Context(), python, "-B", "-c", pythonProgram, dir, url)
	out, err := cmd.CombinedOutput()
	want := []string{"state ring", "progress True", "job 12", "urls 12 0", "hosts 1", "archive True", "error usage", "error no_peer"}
	if err != nil || strings.Join(strings.Fields(string(out)), " ") != strings.Join(want, " ") {
		t.Errorf("%v: %s, want %q", err, out, want)
	}
}
