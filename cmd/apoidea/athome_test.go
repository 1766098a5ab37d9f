//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// asMain has the test's own program be the command.
const asMain = "TEST_APOIDEA_AS_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(asMain) != "" {
		main()
	}
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue && !testing.Short() {
		_ = flag.Set("test.parallel", "6") // a valid number; processes mostly wait
	}
	os.Exit(m.Run())
}

// spoken is what a process says, to be read while it speaks.
type spoken struct {
	mu   sync.Mutex // guards text
	text bytes.Buffer
}

func (s *spoken) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *spoken) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// command is a real process of the program, under a mask of permissions that closes nothing.
func command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "/bin/sh", append([]string{"-c", `umask 000; exec "$@"`, "sh", self}, args...)...)
	cmd.Env = append(os.Environ(), asMain+"=1")
	return cmd
}

// say runs a command to its end.
func say(t *testing.T, args ...string) (out string, code int) {
	t.Helper()
	cmd := command(t, args...)
	raw, _ := cmd.CombinedOutput() // the code tells
	return string(raw), cmd.ProcessState.ExitCode()
}

// peer starts a peer and waits until it serves. End stops it in good order.
func peer(t *testing.T, dir string, args ...string) (said *spoken, end func()) {
	t.Helper()
	said = new(spoken)
	cmd := command(t, append([]string{"run", "--data-dir", dir, "--allow-private", "--delay", "0", "--log-level", "info"}, args...)...)
	cmd.Stdout, cmd.Stderr = said, said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	end = sync.OnceFunc(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(30 * time.Second):
			_ = cmd.Process.Kill()
			<-ended
		}
	})
	t.Cleanup(end)
	await(t, said, func() bool {
		select {
		case <-ended:
			t.Fatalf("the peer ended: %s", said)
		default:
		}
		return strings.Contains(said.String(), ", ring of ")
	})
	return said, end
}

// await waits until something is so.
func await(t *testing.T, said *spoken, so func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !so(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("in vain: %s", said)
		}
	}
}

// opened are the directories and files of a data directory that others may open, as the file system
// has them.
func opened(t *testing.T, dir string) (open []string, files int) {
	t.Helper()
	if err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil // removed meanwhile
		}
		info, err := d.Info()
		if err != nil {
			return nil
		}
		want := fs.FileMode(0o600)
		if d.IsDir() {
			want = 0o700
		}
		if files++; info.Mode().Perm() != want {
			open = append(open, path+" "+info.Mode().String())
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return open, files
}

// TestDataDirIsClosed: a crawling peer keeps its data private, and closes a directory that was open
// with one warning.
func TestDataDirIsClosed(t *testing.T) {
	t.Parallel()
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "a page") }))
	defer site.Close()
	dir := filepath.Join(t.TempDir(), "peer")
	args := []string{"--network", "at-home", "--dashboard", "127.0.0.1:0"}
	_, end := peer(t, dir, append(args, site.URL, "--wait")...)
	status := func() (s struct{ Pages int }) {
		out, _ := say(t, "status", "--json", "--data-dir", dir)
		_ = json.Unmarshal([]byte(out), &s)
		return s
	}
	await(t, new(spoken), func() bool { return status().Pages == 1 })
	closed := func(when string, least int) {
		t.Helper()
		if open, files := opened(t, dir); len(open) > 0 || files < least {
			t.Errorf("%s: of %d things these are open: %s", when, files, strings.Join(open, ", "))
		}
	}
	for _, name := range []string{"apoidea.sock", "addrs", "dashboard.secret", "essentials", "db/LOCK", "archive"} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err != nil {
			t.Errorf("while it runs: %v", err)
		}
	}
	closed("while it runs", 15)
	end()
	closed("afterwards", 13)
	if found, err := filepath.Glob(filepath.Join(dir, "archive", "*.warc.gz")); len(found) == 0 || err != nil {
		t.Errorf("nothing was archived: %v", err)
	}

	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	said, end := peer(t, dir, args...)
	closed("after the second start", 15)
	end()
	if strings.Count(said.String(), "other users") != 1 {
		t.Errorf("said of it: %s", said)
	}
	said, end = peer(t, dir, args...)
	closed("after the third start", 15)
	end()
	if strings.Contains(said.String(), "other users") {
		t.Errorf("said again: %s", said)
	}
	if out, code := say(t, "repair", "--data-dir", dir); code != 0 {
		t.Errorf("repair: %s", out)
	}
	closed("after a repair", 10)
	result := filepath.Join(t.TempDir(), "cdxj")
	if out, code := say(t, "export", "cdxj", "--data-dir", dir, "--output", result); code != 0 {
		t.Errorf("export: %s", out)
	}
	if info, err := os.Stat(result); err != nil || info.Mode().Perm()&0o044 != 0o044 {
		t.Errorf("what the user asked for is not as the user's mask has it: %v, %v", info, err)
	}
}

// TestDataDirOfAnother: what another user could have planted is refused before anything is written.
func TestDataDirOfAnother(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only the administrator can make what is another user's")
	}
	top := t.TempDir()
	theirs, planted := filepath.Join(top, "theirs"), filepath.Join(top, "planted")
	if err := os.Mkdir(theirs, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("nothing", planted); err != nil {
		t.Fatal(err)
	}
	for dir, says := range map[string]string{theirs: "owned by user 54321", planted: "symbolic link that another user can change"} {
		if err := os.Lchown(dir, 54321, 54321); err != nil {
			t.Fatal(err)
		}
		if out, code := say(t, "run", "--data-dir", dir); code != 1 || !strings.Contains(out, says) {
			t.Errorf("%s: exit code %d: %s", dir, code, out)
		}
	}
	if left, err := os.ReadDir(theirs); len(left) > 0 || err != nil {
		t.Errorf("%v was written there, %v", left, err)
	}
}

// TestSecurityNamesTests: the tests that docs/threats.md and docs/guarantees.md name exist.
func TestSecurityNamesTests(t *testing.T) {
	var text []byte
	for _, page := range []string{"threats.md", "guarantees.md"} {
		raw, err := os.ReadFile("../../docs/" + page)
		if err != nil {
			t.Fatal(err)
		}
		text = append(text, raw...)
	}
	named := 0
	for _, of := range regexp.MustCompile("`([a-z0-9/]+)` ((?:(?:Test|Fuzz)\\w+(?:, )?)+)").FindAllStringSubmatch(string(text), -1) {
		files, err := filepath.Glob(filepath.Join("../..", of[1], "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		var source bytes.Buffer
		for _, file := range files {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			source.Write(raw)
		}
		for name := range strings.SplitSeq(of[2], ", ") {
			if named++; !bytes.Contains(source.Bytes(), []byte("\nfunc "+name+"(")) {
				t.Errorf("%s has no %s", of[1], name)
			}
		}
	}
	if named < 40 {
		t.Errorf("%d tests are named", named)
	}
}

// TestRemoteNeedsAFlag: control over TCP, and metrics, are on loopback unless a flag says
// otherwise; the error names it.
func TestRemoteNeedsAFlag(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "peer")
	for _, args := range []string{"--api tcp:0.0.0.0:0", "--api tcp::0", "--api tcp:192.0.2.1:7", "--api tcp:name.example:7", "--metrics 0.0.0.0:0", "--metrics [::]:0"} {
		out, code := say(t, append(strings.Fields("run --data-dir "+dir), strings.Fields(args)...)...)
		if code != exitUsage || !strings.Contains(out, "loopback") || !strings.Contains(out, "--api-remote") {
			t.Errorf("%s: exit code %d: %s", args, code, out)
		}
	}
	for _, args := range []string{"--api-remote --pprof 0.0.0.0:0", "--api-remote --api tcp:", "--api-remote --metrics 7"} {
		if out, code := say(t, append(strings.Fields("run --data-dir "+dir), strings.Fields(args)...)...); code != exitUsage || strings.Contains(out, "--api-remote") {
			t.Errorf("%s: exit code %d: %s", args, code, out)
		}
	}
	if _, err := os.Lstat(dir); err == nil {
		t.Error("something was made of what was refused")
	}
}

// free is an address of loopback at whose port nobody listens, here or elsewhere. The ports that
// systems give to connections of their own begin at 32768: others beside this test would have had
// one of those before it is listened on.
func free(t *testing.T) string {
	t.Helper()
	for range 100 {
		port := strconv.Itoa(20_000 + rand.IntN(12_000))
		ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "0.0.0.0:"+port)
		if err == nil {
			_ = ln.Close()
			return "127.0.0.1:" + port
		}
	}
	t.Fatal("no port is free")
	return ""
}

// fetch asks for a URL with a header, and returns the status and the answer.
func fetch(t *testing.T, client *http.Client, url, key, value string) (status int, text string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if key == "Host" {
		req.Host = value
	} else {
		req.Header.Set(key, value)
	}
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	raw, _ := io.ReadAll(res.Body)
	return res.StatusCode, string(raw)
}

// TestControlNeedsTheToken: over TCP whoever has no token is told so, and our commands find it;
// metrics for other machines want it too; and who looks at the page of a shared machine has to log
// in.
func TestControlNeedsTheToken(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	dir, api, metrics := filepath.Join(top, "peer"), free(t), free(t)
	_, port, _ := net.SplitHostPort(metrics)
	args := []string{"--network", "at-home", "--api", "tcp:" + api, "--api-remote", "--metrics", "0.0.0.0:" + port, "--dashboard-login"}
	said, end := peer(t, dir, args...)
	raw, err := os.ReadFile(filepath.Join(dir, "api.token"))
	if err != nil {
		t.Fatal(err)
	}
	token := strings.TrimSpace(string(raw))
	if open, _ := opened(t, dir); len(open) > 0 {
		t.Errorf("open to others: %s", open)
	}
	for _, url := range []string{"http://" + api + "/v1/status", "http://" + api + "/metrics", "http://" + metrics + "/metrics"} {
		for value, want := range map[string]int{"": 401, "Bearer ": 401, "Bearer " + token[1:]: 401, "Bearer " + strings.ToLower(token): 401, "Basic " + token: 401, "Bearer " + token: 200} {
			if status, text := fetch(t, http.DefaultClient, url, "Authorization", value); status != want || want == 401 && !strings.Contains(text, "--token-file") {
				t.Errorf("%s with %q: %d: %.200s", url, value, status, text)
			}
		}
		if status, _ := fetch(t, http.DefaultClient, url, "Host", "rebound.example"); status != http.StatusForbidden {
			t.Errorf("%s under a name: %d", url, status)
		}
	}
	theirs, wrong := filepath.Join(top, "copy"), filepath.Join(top, "wrong")
	for path, text := range map[string]string{theirs: token, wrong: strings.Repeat("x", 26)} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for args, want := range map[string]struct {
		code int
		says string
	}{
		"--data-dir " + dir: {exitDone, "at-home"},
		"--data-dir " + top + "/none --token-file " + theirs: {exitDone, "at-home"},
		"--data-dir " + top + "/none":                        {exitRefused, "token"},
		"--data-dir " + dir + " --token-file " + wrong:       {exitRefused, "token"},
		"--data-dir " + dir + " --token-file " + top + "/no": {exitUsage, "no such file"},
	} {
		if out, code := say(t, append([]string{"status", "--api", "tcp:" + api}, strings.Fields(args)...)...); code != want.code || !strings.Contains(out, want.says) {
			t.Errorf("%s: exit code %d, want %d: %s", args, code, want.code, out)
		}
	}

	link, code := say(t, "dashboard", "--api", "tcp:"+api, "--data-dir", dir)
	link = strings.TrimSpace(link)
	page, ticket, ok := strings.Cut(link, "login?ticket=")
	if code != exitDone || !ok {
		t.Fatalf("no link: exit code %d: %s", code, link)
	}
	jar, _ := cookiejar.New(nil)
	browser := &http.Client{Jar: jar}
	for _, path := range []string{"", "live", "login?ticket=" + ticket[1:]} {
		if status, text := fetch(t, browser, page+path, "Accept", "text/html"); status != http.StatusForbidden || !strings.Contains(text, "apoidea dashboard") {
			t.Errorf("the page /%s for everybody: %d: %.100s", path, status, text)
		}
	}
	if status, text := fetch(t, browser, link, "Accept", "text/html"); status != http.StatusOK || !strings.Contains(text, "</html>") {
		t.Errorf("the page by its link: %d: %.100s", status, text)
	}
	if status, _ := fetch(t, browser, page, "Accept", "text/html"); status != http.StatusOK {
		t.Errorf("the page with its cookie: %d", status)
	}
	if status, _ := fetch(t, &http.Client{}, link, "Accept", "text/html"); status != http.StatusForbidden {
		t.Errorf("the link a second time: %d", status)
	}

	end()
	if text := said.String(); strings.Contains(text, token) || strings.Contains(text, ticket) {
		t.Errorf("a secret is in what the peer said: %s", text)
	}
	_, end = peer(t, dir, args...)
	defer end()
	if status, _ := fetch(t, http.DefaultClient, "http://"+api+"/v1/status", "Authorization", "Bearer "+token); status != http.StatusOK {
		t.Errorf("after a restart with the same token: %d", status)
	}
}
