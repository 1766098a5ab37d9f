package node

import "github.com/apoidea/apoidea/storage"

// keyspace lends a keyspace of the store to a neighbour that names the batch in its own words: B is an interface that *storage.Batch
// implements, such as owner.Batch.
type keyspace[B any] struct{ *storage.Keyspace }

// Update applies what fn puts into the batch, all or nothing; wait returns when it is on disk.
func (k keyspace[B]) Update(fn func(B)) (wait func() error, err error) {
	return k.Keyspace.Update(func(b *storage.Batch) error {
		fn(any(b).(B))
		return nil
	})
}
