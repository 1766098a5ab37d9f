package show

import (
	"fmt"
	"io"
	"time"

	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/ops/words"
)

// Invitation prints a certificate, and whether its subject has it.
func Invitation(out io.Writer, inv *control.Invitation) error {
	state := "delivered"
	if !inv.Delivered {
		state = "not delivered (" + words.Legible(inv.Error) + "); run on that peer: apoidea ring accept CERTIFICATE"
	}
	_, err := fmt.Fprintf(out, "invited %s until %s: %s\n%s\n", inv.Peer, inv.Until.Local().Format(time.DateTime), state, inv.Certificate)
	return err
}

// Accepted prints an accepted certificate.
func Accepted(out io.Writer, a *control.Admission) error {
	_, err := fmt.Fprintln(out, "accepted: "+admissionText(a))
	return err
}

// admissionText describes the charter of a ring, and a peer's certificate.
func admissionText(a *control.Admission) string {
	switch {
	case a.Mode != "invite":
		return a.Mode
	case !a.Member:
		return "invite; this peer has no certificate"
	case a.Issuer == "":
		return "invite; this peer is the founder"
	default:
		return fmt.Sprintf("invite; certificate of %s until %s", a.Issuer, a.Until.Local().Format(time.DateTime))
	}
}
