//go:build unix

package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestClusterWebGoesOn: an interrupted or killed `cluster up --web` goes on when it is typed again,
// counts exactly what its web saw in that run, and stays finished after that.
//
// Slow: starts two clusters three times.
func TestClusterWebGoesOn(t *testing.T) {
	t.Parallel()
	counts := regexp.MustCompile(`\n(\d+) pages?, (\d+) duplicates?, (\d+) redirects?, (\d+) errors?, \d+ denied by robots.txt(?:, (\d+) pages? not archived)?`)
	seen := regexp.MustCompile(`web server audit: (\d+) requests?, (\d+) distinct`)
	for name, signal := range map[string]os.Signal{"interrupted": os.Interrupt, "killed": os.Kill} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "ring")
			up := strings.Fields("cluster up -n 2 --web --web-hosts 4 --web-pages 60 --delay 25ms --until-idle --dir " + dir)
			said := new(spoken)
			cmd := command(t, up...)
			cmd.Stdout, cmd.Stderr = said, said
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = command(t, "cluster", "down", "--dir", dir).Run() })
			await(t, said, func() bool { return strings.Contains(said.String(), " pages (") })
			_ = cmd.Process.Signal(signal)
			_ = cmd.Wait()
			await(t, said, func() bool {
				out, _ := say(t, "cluster", "status", "--dir", dir)
				return strings.Contains(out, "0 run")
			})

			out, code := say(t, up...)
			n, web := counts.FindStringSubmatch(out), seen.FindStringSubmatch(out)
			if code != exitDone || n == nil || web == nil || !strings.Contains(out, " continued") {
				t.Fatalf("again: exit code %d: %s", code, out)
			}
			sum := 0
			for _, text := range n[1:] {
				k, _ := strconv.Atoi(text)
				sum += k
			}
			if fmt.Sprint(sum) != web[2] || web[1] != web[2] {
				t.Errorf("%d URLs counted: %s", sum, out)
			}
			if out, code := say(t, up...); code != exitDone || strings.Count(out, "nothing left to fetch") != 1 || !strings.Contains(out, "--again") {
				t.Errorf("finished: exit code %d: %s", code, out)
			}
		})
	}
}

// TestClusterWebPortTaken: a port that another program took meanwhile is named, with what to do.
func TestClusterWebPortTaken(t *testing.T) {
	t.Parallel()
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	dir := t.TempDir()
	port := portOf(ln.Addr())
	if err := os.WriteFile(filepath.Join(dir, "cluster.json"), fmt.Appendf(nil, `{"peers":2,"web_port":%d}`, port), 0o600); err != nil {
		t.Fatal(err)
	}
	out, code := say(t, "cluster", "up", "--web", "--until-idle", "--dir", dir)
	if code != exitFailed || !strings.Contains(out, fmt.Sprintf("port %d", port)) || !strings.Contains(out, "--dir") {
		t.Errorf("exit code %d: %s", code, out)
	}
}
