// Package aging is a map that forgets what was used longest ago, for what is worth keeping while
// there is room and can be had again. What it holds never weighs more than it was made for, but for
// a single value that alone is heavier.
package aging

// Map forgets when the values in it have become too heavy: when the young half is full it becomes
// the old one, and what that still held is gone. Not safe for concurrent use.
type Map[K comparable, V any] struct {
	half       int
	weight     func(V) int
	held       int // the weight of young
	young, old map[K]V
}

// New returns an empty map for values that weigh most together. Without weight each weighs one.
func New[K comparable, V any](most int, weight func(V) int) *Map[K, V] {
	if weight == nil {
		weight = func(V) int { return 1 }
	}
	return &Map[K, V]{half: max(1, most/2), weight: weight, young: make(map[K]V)}
}

// Get returns the value of a key, which counts as used.
func (m *Map[K, V]) Get(k K) (V, bool) {
	if v, ok := m.young[k]; ok {
		return v, true
	}
	v, ok := m.old[k]
	if ok {
		m.Set(k, v)
	}
	return v, ok
}

// Set has a key have this value.
func (m *Map[K, V]) Set(k K, v V) {
	m.Remove(k)
	if n := m.weight(v); len(m.young) > 0 && m.held+n > m.half {
		m.old, m.young, m.held = m.young, make(map[K]V), 0
	}
	m.young[k] = v
	m.held += m.weight(v)
}

// Remove forgets a key.
func (m *Map[K, V]) Remove(k K) {
	if v, ok := m.young[k]; ok {
		m.held -= m.weight(v)
		delete(m.young, k)
	}
	delete(m.old, k)
}
