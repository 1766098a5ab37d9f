package hosts

import (
	"fmt"
	"testing"
)

func TestSpreadOfNewHosts(t *testing.T) {
	var sp spread
	for i := range maxRow {
		if !sp.Leads(fmt.Sprintf("h%d.example", i), false) {
			t.Fatalf("host %d leads to no new host", i)
		}
	}
	if sp.Leads("more.example", false) {
		t.Error("a row of hosts that lead to new hosts alone has no end")
	}
	if !sp.Leads("home.example", true) || !sp.Leads("more.example", false) {
		t.Error("a link to a known host does not end the row")
	}
}

func TestSpreadWithinDomain(t *testing.T) {
	var sp spread
	n := 0
	bring := func(from string, most int) {
		for range most {
			n++
			if !sp.Brings(from, fmt.Sprintf("h%d.farm.example", n)) {
				return
			}
		}
	}
	if bring("a.farm.example", 5*ownHosts); n != ownHosts+1 {
		t.Errorf("%d new hosts of a domain that no other links to, want %d", n-1, ownHosts)
	}
	for i := range 3 {
		bring(fmt.Sprintf("other%d.example", i), 1)
	}
	if before := n; sp.domains["farm.example"] == nil {
		t.Error("farm.example is unknown")
	} else if bring("a.farm.example", 5*ownHosts); n-before != 3*linkedHosts {
		t.Errorf("%d more hosts for three links from other domains, want %d", n-before, 3*linkedHosts)
	}
}
