package frontier

import "time"

func (f *Frontier[T]) group(host string) string {
	if f.cfg.Group == nil {
		return ""
	}
	return f.cfg.Group(host)
}

// EnterGroup opens a visit of the group of a host that is in no queue, on behalf of another whose
// visit is open; false during the group's delay. The caller must call LeaveGroup.
func (f *Frontier[T]) EnterGroup(now time.Time, host, other string) bool {
	if f.cfg.GroupDelay == 0 {
		return true
	}
	group := f.group(host)
	f.lines.rested(now)
	if f.rests(group) && !f.sharesGroup(group, other) {
		return false
	}
	f.openGroup(group)
	return true
}

// LeaveGroup closes a visit that EnterGroup opened, with a request.
func (f *Frontier[T]) LeaveGroup(now time.Time, host string) {
	if f.cfg.GroupDelay > 0 {
		f.closeGroup(now, f.group(host), f.cfg.GroupDelay)
	}
}

// rests reports whether a group has a visit, or its delay is not over.
func (f *Frontier[T]) rests(group string) bool {
	if f.cfg.GroupDelay == 0 {
		return false
	}
	own := f.lines.of[group]
	return own != nil && own.rests()
}

func (f *Frontier[T]) sharesGroup(group, host string) bool {
	h := f.hosts[host]
	return h != nil && h.visited && h.group == group
}

func (f *Frontier[T]) openGroup(group string) {
	if f.cfg.GroupDelay > 0 {
		f.lines.open(f.lines.at(group))
	}
}

func (f *Frontier[T]) closeGroup(now time.Time, group string, rest time.Duration) {
	if f.cfg.GroupDelay > 0 {
		f.lines.close(now, f.lines.at(group), now.Add(rest))
	}
}
