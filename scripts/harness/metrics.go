package harness

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Files returns what the descriptors of a process refer to, as in /proc/PID/fd.
func Files(pid int) ([]string, error) {
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	fds, err := os.ReadDir(dir)
	files := make([]string, len(fds))
	for i, fd := range fds {
		files[i], _ = os.Readlink(filepath.Join(dir, fd.Name()))
	}
	return files, err
}

// Queued is how long the threads of a process were ready and had no processor so far.
func Queued(pid int) (sum time.Duration) {
	stats, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	for _, file := range stats {
		raw, err := os.ReadFile(file)
		if f := strings.Fields(string(raw)); err == nil && len(f) > 1 {
			n, _ := strconv.ParseInt(f[1], 10, 64)
			sum += time.Duration(n)
		}
	}
	return sum
}

// ConnectionsAbroad are the sockets of this machine that are connected beyond loopback, or try to
// be: the remote address in hexadecimal, by the name of the socket as Files returns it.
func ConnectionsAbroad() map[string]string {
	abroad := make(map[string]string)
	for _, file := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		raw, _ := os.ReadFile(file)
		for line := range strings.Lines(string(raw)) {
			const listening = "0A"
			if f := strings.Fields(line); len(f) >= 10 && f[3] != listening && !loopbackHex(f[2]) {
				abroad["socket:["+f[9]+"]"] = f[2]
			}
		}
	}
	return abroad
}

// loopbackHex reports whether an address of /proc/net/tcp is of loopback, or none.
func loopbackHex(addr string) bool {
	ip, port, _ := strings.Cut(addr, ":")
	switch {
	case port == "0000" || port == "": // no connection, or the line of titles
		return true
	case len(ip) == 8:
		return strings.HasSuffix(ip, "7F")
	default:
		return ip == "00000000000000000000000001000000" || strings.HasPrefix(ip, "0000000000000000FFFF0000") && strings.HasSuffix(ip, "7F")
	}
}

// Metric reads a metric without labels of a peer.
func (p *Peer) Metric(ctx context.Context, name string) (float64, error) {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", Socket(p.Dir))
	}}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://peer/metrics", nil)
	if err != nil {
		return 0, err
	}
	res, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(res.Body, 4<<20))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(raw)) {
		if v, ok := strings.CutPrefix(line, name+" "); ok {
			return strconv.ParseFloat(strings.TrimSpace(v), 64)
		}
	}
	return 0, errors.New("/metrics has no " + name)
}
