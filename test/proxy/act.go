package proxy

import "time"

// Act is what happens to a message that a rule has met. The zero value lets it
// pass: such a rule only counts and announces.
type Act[M any] struct {
	hold    bool
	delay   time.Duration
	drop    bool
	cut     bool
	again   bool
	rewrite func(M) error
}

// Hold keeps the message, and with it what follows in the same direction of its
// connection, until the rule is released or removed. A held request is
// forwarded then even if its sender has closed the connection: that is how a
// request arrives late.
func Hold[M any]() Act[M] { return Act[M]{hold: true} }

// Delay is Hold for a while.
func Delay[M any](d time.Duration) Act[M] { return Act[M]{delay: d} }

// Drop forwards nothing, and leaves the connection as it is: the one who waits
// for the message has to lose patience.
func Drop[M any]() Act[M] { return Act[M]{drop: true} }

// Cut closes the connection in both directions in place of forwarding the
// message. The cut of an answer: carried out, and not told.
func Cut[M any]() Act[M] { return Act[M]{cut: true} }

// Again lets the message pass and sends it a second time when the rule is
// released, as a network does that had two ways for a packet. Nobody sees the
// answer to the second one.
func Again[M any]() Act[M] { return Act[M]{again: true} }

// Rewrite changes the message before it is forwarded.
func Rewrite[M any](f func(M) error) Act[M] { return Act[M]{rewrite: f} }
