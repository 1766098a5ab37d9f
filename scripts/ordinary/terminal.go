package main

import (
	"fmt"
	"io"
	"os"
	"regexp"

	"golang.org/x/sys/unix"
)

// plural finds a 1 with a noun in the plural.
var plural = regexp.MustCompile(`\b(?:^|[^\d.,:/])1 (?:hosts|pages|peers|members|URLs|jobs|errors|records|duplicates|redirects|workers|neighbours|requests|calls)\b`)

// onTerminal returns what a command prints on a terminal of that width.
func (t *trial) onTerminal(columns uint16, args ...string) (string, error) {
	keyboard, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return "", err
	}
	defer keyboard.Close()
	n, err := unix.IoctlGetInt(int(keyboard.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(keyboard.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		return "", err
	}
	screen, err := os.OpenFile(fmt.Sprint("/dev/pts/", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return "", err
	}
	if err := unix.IoctlSetWinsize(int(screen.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 40, Col: columns}); err != nil {
		screen.Close()
		return "", err
	}
	text := make(chan string)
	go func() {
		raw, _ := io.ReadAll(keyboard) // ends with an error when the screen is closed
		text <- string(raw)
	}()
	cmd := t.command(t, args...)
	cmd.Stdout, cmd.Stderr = screen, screen
	_ = cmd.Run() // what it prints is judged
	screen.Close()
	return <-text, nil
}
