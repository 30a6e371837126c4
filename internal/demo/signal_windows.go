package demo

import (
	"errors"
	"os"
)

// canFreeze says whether this system can stop a process and let it go on.
const canFreeze = false

var errFreeze = errors.New("Windows cannot stop a process")

func freeze(*os.Process) error { return errFreeze }

func thaw(*os.Process) error { return errFreeze }

// interrupt kills: Windows has no signal that a console program gets from
// another.
func interrupt(p *os.Process) error { return p.Kill() }
