// Package experiment lists the experiments: those of the papers, repeated, and those that test the
// guarantees of this system.
//
// The packages below have one experiment family each: apoidea, bandwidth, coordinates and ipmicra
// for the papers, freshness, and placement, which compares all strategies. An experiment is a
// [trial.Experiment]: a name, a description, and a function that fills a report with table rows and
// charts. [trial.Run] runs one and writes a directory: table.json, table.csv, run.json and an SVG
// per chart. The same options give the same table and charts, byte for byte; only run.json has the
// time.
//
// Files are written to a temporary name and then renamed, so an interrupted run leaves no partial
// file.
package experiment
