package workers

import (
	"testing"
	"time"

	"github.com/apoidea/apoidea/dht/member"
)

func TestReach(t *testing.T) {
	const up, down = 15 * time.Minute, time.Minute
	type seen struct {
		at   time.Duration
		what Reachability
	}
	type role struct {
		at   time.Duration
		want member.Role
	}
	for _, row := range []struct {
		name  string
		start member.Role
		seen  []seen
		roles []role
	}{
		{"nothing seen, a member stays", member.RoleMember, nil, []role{{24 * time.Hour, member.RoleMember}}},
		{"nothing seen, a worker stays", member.RoleWorker, nil, []role{{24 * time.Hour, member.RoleWorker}}},
		{
			"public for 15 minutes", member.RoleWorker,
			[]seen{{0, ReachPublic}},
			[]role{{up - 1, member.RoleWorker}, {up, member.RoleMember}},
		},
		{
			"public again and again is one time", member.RoleWorker,
			[]seen{{0, ReachPublic}, {5 * time.Minute, ReachPublic}, {14 * time.Minute, ReachPublic}},
			[]role{{up - 1, member.RoleWorker}, {up, member.RoleMember}},
		},
		{
			"a break begins it anew", member.RoleWorker,
			[]seen{{0, ReachPublic}, {14 * time.Minute, ReachPrivate}, {14*time.Minute + 1, ReachPublic}},
			[]role{{up, member.RoleWorker}, {29 * time.Minute, member.RoleWorker}, {29*time.Minute + 1, member.RoleMember}},
		},
		{
			"not knowing is a break", member.RoleWorker,
			[]seen{{0, ReachPublic}, {10 * time.Minute, ReachUnknown}},
			[]role{{24 * time.Hour, member.RoleWorker}},
		},
		{
			"private for a minute", member.RoleMember,
			[]seen{{0, ReachPublic}, {time.Hour, ReachPrivate}},
			[]role{{time.Hour + down - 1, member.RoleMember}, {time.Hour + down, member.RoleWorker}},
		},
		{
			"private for a moment", member.RoleMember,
			[]seen{{0, ReachPrivate}, {down - 1, ReachPublic}},
			[]role{{time.Hour, member.RoleMember}},
		},
		{
			"there and back", member.RoleMember,
			[]seen{{0, ReachPrivate}, {2 * time.Minute, ReachPublic}},
			[]role{{time.Minute, member.RoleWorker}, {2*time.Minute + up - 1, member.RoleWorker}, {2*time.Minute + up, member.RoleMember}},
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			zero := time.Unix(1e9, 0)
			r := NewReach(row.start, up, down)
			observed := 0
			for _, want := range row.roles {
				for ; observed < len(row.seen) && row.seen[observed].at <= want.at; observed++ {
					at := zero.Add(row.seen[observed].at)
					r.Role(at)
					r.Observe(at, row.seen[observed].what)
				}
				if got := r.Role(zero.Add(want.at)); got != want.want {
					t.Errorf("%s at %v, want %s", got, want.at, want.want)
				}
			}
		})
	}
}

// TestSleepIsNoConfirmation: fifteen minutes of sleep say nothing of whether the peer can be
// dialled.
func TestSleepIsNoConfirmation(t *testing.T) {
	now := time.Unix(1e9, 0)
	r := NewReach(member.RoleWorker, 15*time.Minute, time.Minute)
	r.Observe(now, ReachPublic)
	now = now.Add(time.Hour)
	r.Interrupted(now)
	if r.Role(now) != member.RoleWorker || r.Role(now.Add(15*time.Minute)) != member.RoleMember {
		t.Error("the time asleep counts")
	}
}

// TestCertifiedPeerIsPromotedAtOnce: a worker that others dialed does not wait once it has a
// certificate, and one that nobody dialed stays a worker.
func TestCertifiedPeerIsPromotedAtOnce(t *testing.T) {
	now := time.Unix(1e9, 0)
	r := NewReach(member.RoleWorker, 15*time.Minute, time.Minute)
	if r.Certified() != member.RoleWorker {
		t.Error("promoted without an observation")
	}
	r.Observe(now, ReachPublic)
	if r.Certified() != member.RoleMember || r.Role(now) != member.RoleMember {
		t.Error("not promoted")
	}
}
