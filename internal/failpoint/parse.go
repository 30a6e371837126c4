package failpoint

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Action is what happens at an armed point.
type Action string

// The actions; see the package documentation.
const (
	Kill   Action = "kill"
	Freeze Action = "freeze"
	Delay  Action = "delay"
	Error  Action = "error"
	Hold   Action = "hold"
)

// Arm is one armed point.
type Arm struct {
	Point  Point
	Task   int32 // -1: any
	Epoch  int64 // -1: any
	Hit    int64 // only the n-th time, from 1; 0: every time
	Action Action
	Delay  time.Duration // of Delay, else 0
}

// String is the form that Parse reads.
func (a Arm) String() string {
	var b strings.Builder
	b.WriteString(string(a.Point))
	if a.Task >= 0 {
		fmt.Fprintf(&b, ":task=%d", a.Task)
	}
	if a.Epoch >= 0 {
		fmt.Fprintf(&b, ":epoch=%d", a.Epoch)
	}
	if a.Hit > 0 {
		fmt.Fprintf(&b, ":hit=%d", a.Hit)
	}
	b.WriteString("=" + string(a.Action))
	if a.Action == Delay {
		fmt.Fprintf(&b, "(%s)", a.Delay)
	}
	return b.String()
}

// Parse reads arms separated by ";". Empty parts are left out, so that "" is
// nothing armed.
func Parse(text string) ([]Arm, error) {
	var arms []Arm
	for part := range strings.SplitSeq(text, ";") {
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}
		a, err := parseArm(part)
		if err != nil {
			return nil, fmt.Errorf("parse fail point %q: %w", part, err)
		}
		arms = append(arms, a)
	}
	return arms, nil
}

func parseArm(text string) (Arm, error) {
	a := Arm{Task: -1, Epoch: -1}
	i := strings.LastIndexByte(text, '=')
	if i < 0 {
		return a, fmt.Errorf("no action: write POINT[:task=N][:epoch=N][:hit=N]=ACTION")
	}
	var err error
	if a.Action, a.Delay, err = parseAction(text[i+1:]); err != nil {
		return a, err
	}
	conds := strings.Split(text[:i], ":")
	a.Point = Point(conds[0])
	if !known(a.Point) {
		return a, fmt.Errorf("no such point %q", conds[0])
	}
	for _, c := range conds[1:] {
		if err := a.condition(c); err != nil {
			return a, err
		}
	}
	return a, nil
}

func (a *Arm) condition(text string) error {
	name, value, _ := strings.Cut(text, "=")
	n, err := strconv.ParseInt(value, 10, 64)
	switch {
	case name == "task" && err == nil && n >= 0 && n < 1<<31:
		a.Task = int32(n)
	case name == "epoch" && err == nil && n >= 0:
		a.Epoch = n
	case name == "hit" && err == nil && n > 0:
		a.Hit = n
	default:
		return fmt.Errorf("condition %q: want task=N, epoch=N, or hit=N from 1", text)
	}
	return nil
}

func parseAction(text string) (Action, time.Duration, error) {
	switch a := Action(text); a {
	case Kill, Freeze, Error, Hold:
		return a, 0, nil
	}
	inner, ok := strings.CutPrefix(text, "delay(")
	inner, ok2 := strings.CutSuffix(inner, ")")
	d, err := time.ParseDuration(inner)
	if !ok || !ok2 || err != nil || d < 0 {
		return "", 0, fmt.Errorf("action %q: want kill, freeze, error, hold or delay(200ms)", text)
	}
	return Delay, d, nil
}

func known(p Point) bool {
	for _, q := range Points() {
		if q.Point == p {
			return true
		}
	}
	return false
}
