package resolve

import (
	"bufio"
	"io"
	"net/netip"
	"os"
	"strings"
	"sync"
	"time"
)

// Limits of the hosts file: lists of blocked names have some megabytes.
const (
	maxHostsBytes = 16 << 20
	maxHostsLine  = 64 << 10
)

// hostsCheck is the interval for checking the file's modification time.
const hostsCheck = 5 * time.Second

// hostsFile is the local table of names, read again when it changes.
type hostsFile struct {
	path string

	mu      sync.Mutex // guards the rest; held while the file is read, which is rare and local
	checked time.Time
	mtime   time.Time
	size    int64
	names   map[string][]netip.Addr
}

// lookup returns the addresses of name, which is in lower case.
func (h *hostsFile) lookup(name string, now time.Time) []netip.Addr {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.checked.IsZero() || now.Sub(h.checked) >= hostsCheck || now.Before(h.checked) {
		h.checked = now
		h.refresh()
	}
	return h.names[name]
}

// refresh reads the file if it has changed. An unreadable file counts as empty.
func (h *hostsFile) refresh() {
	info, err := os.Stat(h.path)
	if err != nil {
		h.names, h.mtime, h.size = nil, time.Time{}, 0
		return
	}
	if h.names != nil && info.ModTime().Equal(h.mtime) && info.Size() == h.size {
		return
	}
	f, err := os.Open(h.path)
	if err != nil {
		h.names = nil
		return
	}
	defer f.Close()
	h.names, h.mtime, h.size = parseHosts(io.LimitReader(f, maxHostsBytes)), info.ModTime(), info.Size()
}

// parseHosts parses lines of an address and its names (hosts(5)). It skips invalid lines.
func parseHosts(r io.Reader) map[string][]netip.Addr {
	names := make(map[string][]netip.Addr)
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxHostsLine)
	for lines.Scan() {
		line, _, _ := strings.Cut(lines.Text(), "#")
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		addr, err := netip.ParseAddr(fields[0])
		if err != nil || addr.Zone() != "" {
			continue
		}
		for _, name := range fields[1:] {
			name = strings.ToLower(strings.TrimSuffix(name, "."))
			names[name] = append(names[name], addr.Unmap())
		}
	}
	return names
}
