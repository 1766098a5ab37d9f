package show

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/apoidea/apoidea/node/control"
)

// TestAdmissionInStatus: status prints the mode, the issuer of a certificate, and how a worker gets
// one.
func TestAdmissionInStatus(t *testing.T) {
	for _, row := range []struct {
		admission control.Admission
		want      string
	}{
		{control.Admission{Mode: "open", Member: true}, "open\n"},
		{control.Admission{Mode: "invite", Member: true}, "founder"},
		{control.Admission{Mode: "invite", Member: true, Issuer: "theissuer", Until: time.Unix(1e9, 0)}, "certificate of theissuer until 2001-09-"},
		{control.Admission{Mode: "invite"}, "apoidea ring invite theworker"},
	} {
		s := &control.Status{Peer: "theworker", Admission: &row.admission}
		if !row.admission.Member {
			s.Role = "worker"
		}
		var out bytes.Buffer
		if err := Status(&out, s, false); err != nil || !strings.Contains(out.String(), row.want) || !strings.Contains(out.String(), "admission") {
			t.Errorf("%+v: %v\n%s\nexpected %q", row.admission, err, out.String(), row.want)
		}
	}
}
