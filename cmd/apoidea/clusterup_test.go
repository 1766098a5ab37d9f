package main

import (
	"slices"
	"strings"
	"testing"
)

func TestPassThrough(t *testing.T) {
	g := new(globals)
	dir := ""
	cmd := newClusterUp(g, &dir)
	err := cmd.ParseFlags(strings.Fields("-n 3 --delay 10ms --allow-private --bootstrap a --bootstrap b --fetch-from 127.0.0.1 --max-depth 2 --until-idle"))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"--allow-private=true", "--bootstrap=a", "--bootstrap=b", "--delay=10ms"}
	if got := passThrough(cmd); !slices.Equal(got, want) {
		t.Errorf("passed on %q, want %q", got, want)
	}
}
