package machine

import (
	"os"
	"time"
)

// This returns the local machine.
func This() *Machine { return &Machine{Root: "/", Run: command, Env: os.Getenv, Now: time.Now} }
