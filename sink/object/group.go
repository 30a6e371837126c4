package object

import (
	"context"
	"fmt"
	"time"

	"exactly/sink"
	"exactly/sink/object/encode"
	"exactly/sink/object/store"
)

// group is a range of the outbox and the files that hold it: one committable.
type group struct {
	from     sink.Pos
	through  sink.Pos  // set when it is sealed
	seen     time.Time // when Stage first found something in it; zero: not yet
	epoch    int64     // of the last record; 0: no record yet
	open     []*part   // least recently used first
	done     []*part   // take no more records
	parts    int       // opened so far
	bytes    int64     // of done, as written
	verdicts int
	cost     int    // bytes of the committable, about
	nonce    string // AtLeastOnce: makes the names of its files its own
	staged   bool   // durable, and Stage said so to the fail point
}

// part is one file of a group.
type part struct {
	folder string
	number int
	enc    encode.Encoder // nil once closed
	final  string         // set when it is closed
	spool  spool
	staged store.Staged // once it is durable
}

// size is what the file has now, and about what it holds back.
func (p *part) size() int64 {
	n := p.spool.total()
	if p.enc != nil {
		n += p.enc.Buffered()
	}
	return n
}

// spool takes an encoder's bytes in memory, so that the encoder never sees an
// error, and moves them to the upload.
type spool struct {
	buf    []byte
	put    int64        // bytes that the upload has
	upload store.Upload // nil: not created yet
}

// Write implements io.Writer. It never fails.
func (s *spool) Write(p []byte) (int, error) {
	s.buf = append(s.buf, p...)
	return len(p), nil
}

func (s *spool) total() int64 { return s.put + int64(len(s.buf)) }

// drain hands what is buffered to the upload. After an error the bytes are
// still there, and the next drain hands them over.
func (s *spool) drain(ctx context.Context) error {
	if len(s.buf) == 0 {
		return nil
	}
	if err := s.upload.Put(ctx, s.buf); err != nil {
		return err
	}
	s.put += int64(len(s.buf))
	if cap(s.buf) > 2*s.upload.PartSize() {
		s.buf = nil // one large row group must not hold memory for ever
	}
	s.buf = s.buf[:0]
	return nil
}

func (s *spool) close() error {
	s.buf = nil
	if s.upload == nil {
		return nil
	}
	return s.upload.Close()
}

// find gives the open file of a folder and makes it the most recently used.
func (g *group) find(folder string) *part {
	for i, p := range g.open {
		if p.folder == folder {
			copy(g.open[i:], g.open[i+1:])
			g.open[len(g.open)-1] = p
			return p
		}
	}
	return nil
}

// close ends the content of p, whose last record is at or before through. What
// it wrote is still to be drained.
func (g *group) close(p *part, meta encode.Meta, final string) error {
	if err := p.enc.Close(meta); err != nil {
		return fmt.Errorf("end file %s: %w", final, err)
	}
	p.enc, p.final = nil, final
	for i, o := range g.open {
		if o == p {
			g.open = append(g.open[:i], g.open[i+1:]...)
			break
		}
	}
	g.done = append(g.done, p)
	g.bytes += p.spool.total()
	return nil
}
