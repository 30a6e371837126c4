package sink

import (
	"context"
	"time"
)

// StagedWork is one piece of work that waits in a sink, durable and invisible, as
// the sink's system lists it.
type StagedWork struct {
	Name  string        // as the system knows it
	Place string        // which system, for people
	Age   time.Duration // by the system's clock

	// Whose it is, by its name; zero where Foreign.
	Generation, Task int32
	Attempt, Epoch   int64

	// Foreign: its name is in the manner of this program, and not of this
	// incarnation, pipeline and sink. Nothing here ever ends it.
	Foreign bool
	Undo    string // what a person does who is sure that nobody needs it
}

// Observer is a sink that can say what is staged in its system: by this process,
// by others, and by those that died over it and left it holding its locks.
type Observer interface {
	Sink
	// Observe lists it, the oldest first. Of o only Incarnation, Pipeline and Sink
	// count. It changes nothing, opens no task, and is safe beside all of them.
	Observe(ctx context.Context, o Owner) ([]StagedWork, error)
}
