package show

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/ops/words"
)

// OptOutCheck prints whether a URL is opted out, and how its site opts out.
func OptOutCheck(out io.Writer, o *control.OptOutCheck) error {
	state := "may be crawled"
	if o.OptedOut {
		state = "opted out: " + strings.Join(o.Reasons, "; ")
	}
	return words.Table(out, [][]string{
		{"URL", o.URL},
		{"state", state},
		{"to opt out", fmt.Sprintf("publish the line %s in %s or in a TXT record", o.Token, o.WellKnown)},
		{"to withdraw", fmt.Sprintf("publish the line %s there", o.WithdrawToken)},
	})
}

// OptOuts lists the opt-outs of a peer.
func OptOuts(out io.Writer, o *control.OptOuts) error {
	var rows [][]string
	for _, l := range o.Lists {
		rows = append(rows, []string{"list " + l.From, strconv.Itoa(l.Rules) + " rules"})
		for _, rule := range l.First {
			rows = append(rows, []string{"", rule})
		}
	}
	for _, d := range o.Domains {
		rows = append(rows, []string{"stored for the ring", "domain " + d})
	}
	for _, h := range o.Hosts {
		rows = append(rows, []string{"stored for the ring", "host " + h})
	}
	if len(rows) == 0 {
		rows = append(rows, []string{"none", "this peer has no opt-outs"})
	}
	return words.Table(out, rows)
}
