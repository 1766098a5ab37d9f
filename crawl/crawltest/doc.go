// Package crawltest holds what tests of several packages share: a store in memory that can crash,
// jobs, and virtual time.
package crawltest
