package main

import "strings"

// commandCases are about commands.
var commandCases = []scenario{
	{name: "limits-set", words: "what limits set, pause and resume print", run: limitsSet},
}

func limitsSet(t *trial) {
	p := t.up("p")
	defer p.Kill()
	for _, step := range []struct{ command, expected string }{
		{"limits set bandwidth=2Mbit", "bandwidth: 2Mbit"}, {"limits set bandwidth=default", "bandwidth: none"}, {"pause", "paused"}, {"resume", "resumed"}, {"resume", "no pause"},
	} {
		r := t.apoidea(append(strings.Fields(step.command), "--data-dir", t.at("p"))...)
		t.has(step.command, r.text(), step.expected)
		t.lacks(step.command, r.text(), "not paused")
	}
}
