//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
)

// peerBytes is what the kernel has counted on the TCP connections of a process, each under its two
// ends, without those to or from the given port.
func peerBytes(ctx context.Context, pid int, without string) (map[string]int64, error) {
	out, err := exec.CommandContext(ctx, "ss", "-tinpHO", "state", "established").Output()
	if err != nil {
		return nil, fmt.Errorf("ss: %w", err)
	}
	all := make(map[string]int64)
	lines := bufio.NewScanner(bytes.NewReader(out))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		fields := strings.Fields(line)
		if !strings.Contains(line, fmt.Sprintf("pid=%d,", pid)) || len(fields) < 4 {
			continue
		}
		if strings.HasSuffix(fields[2], without) || strings.HasSuffix(fields[3], without) {
			continue
		}
		var n int64
		for _, f := range fields {
			for _, name := range []string{"bytes_sent:", "bytes_received:"} {
				if v, ok := strings.CutPrefix(f, name); ok {
					b, _ := strconv.ParseInt(v, 10, 64)
					n += b
				}
			}
		}
		all[fields[2]+" "+fields[3]] = n
	}
	return all, lines.Err()
}

// grown is by how much the counts of connections grew; those that are new count whole.
func grown(before, after map[string]int64) (n int64) {
	for name, b := range after {
		n += max(b-before[name], 0)
	}
	return n
}
