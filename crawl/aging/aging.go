// Package aging implements a cache map that evicts entries by age of use. Its total weight never
// exceeds the limit, except for a single value that alone is heavier.
package aging

// Map consists of two generations: when the young one is full it replaces the old one, whose
// entries are dropped. It is not safe for concurrent use.
type Map[K comparable, V any] struct {
	half       int
	weight     func(V) int
	held       int // weight of young
	young, old map[K]V
}

// New returns an empty map of values with a total weight of most. Without weight each weighs one.
func New[K comparable, V any](most int, weight func(V) int) *Map[K, V] {
	if weight == nil {
		weight = func(V) int { return 1 }
	}
	return &Map[K, V]{half: max(1, most/2), weight: weight, young: make(map[K]V)}
}

// Get returns the value of a key and marks it as used.
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

// Set sets the value of a key.
func (m *Map[K, V]) Set(k K, v V) {
	m.Remove(k)
	if n := m.weight(v); len(m.young) > 0 && m.held+n > m.half {
		m.old, m.young, m.held = m.young, make(map[K]V), 0
	}
	m.young[k] = v
	m.held += m.weight(v)
}

// Remove deletes a key.
func (m *Map[K, V]) Remove(k K) {
	if v, ok := m.young[k]; ok {
		m.held -= m.weight(v)
		delete(m.young, k)
	}
	delete(m.old, k)
}
