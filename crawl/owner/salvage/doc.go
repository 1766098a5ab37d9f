// Package salvage reads what damage has left of an owner's records, each by itself, and makes such
// as an owner whose store is empty may import, which counts everything anew. It has no state.
package salvage
