package dht

import (
	"testing"
	"time"
)

func TestReach(t *testing.T) {
	const up, down = 15 * time.Minute, time.Minute
	type seen struct {
		at   time.Duration
		what Reachability
	}
	type role struct {
		at   time.Duration
		want Role
	}
	for _, row := range []struct {
		name  string
		start Role
		seen  []seen
		roles []role
	}{
		{"nothing seen, a member stays", RoleMember, nil, []role{{24 * time.Hour, RoleMember}}},
		{"nothing seen, a worker stays", RoleWorker, nil, []role{{24 * time.Hour, RoleWorker}}},
		{
			"public for 15 minutes", RoleWorker,
			[]seen{{0, ReachPublic}},
			[]role{{up - 1, RoleWorker}, {up, RoleMember}},
		},
		{
			"public again and again is one time", RoleWorker,
			[]seen{{0, ReachPublic}, {5 * time.Minute, ReachPublic}, {14 * time.Minute, ReachPublic}},
			[]role{{up - 1, RoleWorker}, {up, RoleMember}},
		},
		{
			"a break begins it anew", RoleWorker,
			[]seen{{0, ReachPublic}, {14 * time.Minute, ReachPrivate}, {14*time.Minute + 1, ReachPublic}},
			[]role{{up, RoleWorker}, {29 * time.Minute, RoleWorker}, {29*time.Minute + 1, RoleMember}},
		},
		{
			"not knowing is a break", RoleWorker,
			[]seen{{0, ReachPublic}, {10 * time.Minute, ReachUnknown}},
			[]role{{24 * time.Hour, RoleWorker}},
		},
		{
			"private for a minute", RoleMember,
			[]seen{{0, ReachPublic}, {time.Hour, ReachPrivate}},
			[]role{{time.Hour + down - 1, RoleMember}, {time.Hour + down, RoleWorker}},
		},
		{
			"private for a moment", RoleMember,
			[]seen{{0, ReachPrivate}, {down - 1, ReachPublic}},
			[]role{{time.Hour, RoleMember}},
		},
		{
			"there and back", RoleMember,
			[]seen{{0, ReachPrivate}, {2 * time.Minute, ReachPublic}},
			[]role{{time.Minute, RoleWorker}, {2*time.Minute + up - 1, RoleWorker}, {2*time.Minute + up, RoleMember}},
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

// TestSleepIsNoConfirmation: fifteen minutes of sleep say nothing of whether the peer can be dialled.
func TestSleepIsNoConfirmation(t *testing.T) {
	now := time.Unix(1e9, 0)
	r := NewReach(RoleWorker, 15*time.Minute, time.Minute)
	r.Observe(now, ReachPublic)
	now = now.Add(time.Hour)
	r.Interrupted(now)
	if r.Role(now) != RoleWorker || r.Role(now.Add(15*time.Minute)) != RoleMember {
		t.Error("the time asleep counts")
	}
}
