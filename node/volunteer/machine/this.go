package machine

import (
	"os"
	"time"
)

// This is the computer that the process runs on.
func This() *Machine { return &Machine{Root: "/", Run: command, Env: os.Getenv, Now: time.Now} }
