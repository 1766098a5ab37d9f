//go:build race

package dht_test

const raceEnabled = true
