package audit

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"exactly/internal/broker"
	"exactly/internal/config"
	"exactly/record"
	httpsink "exactly/sink/http"
	"exactly/sink/kafka"
	"exactly/sink/object"
	"exactly/sink/postgres"
	"exactly/sink/sqlite"
	"exactly/step"
	"exactly/step/cel"

	"exactly/sink"
)

// FileOptions are what a pipeline file does not say.
type FileOptions struct {
	Listings map[string]string // by HTTP sink: the address that lists the partner's calls
	Log      *slog.Logger
}

// FromFile makes the plan of a pipeline. Nothing is connected yet.
func FromFile(f *config.File, o FileOptions) (Plan, error) {
	bc := f.Broker()
	bc.Log = o.Log
	opts, err := broker.Options(bc)
	if err != nil {
		return Plan{}, err
	}
	prog := f.Program()
	p := Plan{
		Kafka: opts, Topics: f.Source.Topics, Steps: prog.NewChain(),
		Dead: &TopicDead{Kafka: opts, Topic: f.DeadLetters.Topic},
	}
	for _, path := range prog.UnverifiableFields() {
		top, _, _ := strings.Cut(path, ".")
		if !slices.Contains(p.Unverified, top) {
			p.Unverified = append(p.Unverified, top)
		}
	}
	if fates := prog.UnverifiableFates(); len(fates) > 0 {
		p.Notes = append(p.Notes, "whether a record is there depends on its epoch at "+strings.Join(fates, ", ")+", which cannot be verified")
	}
	switch start, err := time.Parse(time.RFC3339, f.Source.Start); {
	case err == nil:
		p.Since = start.UnixMilli()
	case f.Source.Start != "earliest":
		p.Notes = append(p.Notes, "source.start is "+f.Source.Start+": the audit begins at the earliest record, and what came before the start counts as missing")
	}
	for _, s := range f.Sinks {
		b := binder{file: f, env: prog.Env(), opts: opts, listings: o.Listings, place: "sinks." + s.Name}
		bound, err := b.sink(s)
		if err != nil {
			return Plan{}, f.SinkError(s.Name, err)
		}
		p.Sinks = append(p.Sinks, bound...)
	}
	return p, nil
}

// binder makes one sink's part of the plan.
type binder struct {
	file     *config.File
	env      *cel.Env
	opts     kafkaOpts
	listings map[string]string
	place    string
}

func (b *binder) sink(s config.Sink) ([]Sink, error) {
	out := Sink{Name: s.Name, Kind: s.Kind}
	if s.Where != "" {
		where, err := step.NewFilter(b.env, b.place+".where", s.Where)
		if err != nil {
			return nil, err
		}
		var v cel.Vars
		out.Where = func(r *record.Record) (bool, error) {
			v.Reset(r)
			return where.Keep(&v)
		}
	}
	err := b.identity(&out, b.file.Audit.ID)
	if err != nil {
		return nil, err
	}
	switch c := s.Settings.(type) {
	case *kafka.Config:
		err = b.kafka(&out, *c)
	case *sqlite.Config:
		err = b.sqlite(&out, *c)
	case *postgres.Config:
		return b.postgres(out, *c)
	case *object.Config:
		b.object(&out, *c)
	case *httpsink.Config:
		err = b.http(&out, *c)
	default:
		err = fmt.Errorf("an audit of sinks of kind %s is not possible", s.Kind)
	}
	return []Sink{out}, err
}

// identity takes an expression for the identity; "" leaves it as it is.
func (b *binder) identity(s *Sink, expr string) error {
	if expr == "" {
		return nil
	}
	x, err := b.env.Compile(expr, cel.TypeAny)
	if err != nil {
		return fmt.Errorf("audit.id: %w", err)
	}
	if fs := x.Fields(); len(fs) == 1 && fs[0] == strings.TrimSpace(expr) { // just a field
		s.ID = func(r *record.Record) ([]byte, error) {
			if raw, ok := record.Lookup(r.Value, fs[0]); ok {
				return plain(raw), nil
			}
			return nil, fmt.Errorf("identity: there is no field %s", fs[0])
		}
		return nil
	}
	var v cel.Vars
	s.ID = func(r *record.Record) ([]byte, error) {
		v.Reset(r)
		raw, ok, err := x.AppendJSON(nil, &v)
		if err != nil || !ok {
			return nil, fmt.Errorf("identity %s: there is none: %w", x, err)
		}
		return plain(raw), nil
	}
	return nil
}

func (b *binder) kafka(s *Sink, c kafka.Config) error {
	router, err := kafka.New(s.Name, c, kafka.Deps{Env: b.env})
	if err != nil {
		return err
	}
	reader := &KafkaReader{Kafka: b.opts, Topics: router.Topics()}
	var ms []sink.Message
	s.Routes = true
	s.Map = func(dst []record.Record, r *record.Record) ([]record.Record, error) {
		var err error
		if ms, err = router.Route(ms[:0], r); err != nil {
			return dst, err
		}
		for _, m := range ms {
			if !slices.Contains(reader.Topics, m.Topic) {
				reader.Topics = append(reader.Topics, m.Topic)
			}
			out := *r
			out.Key, out.Value = m.Key, m.Value
			dst = append(dst, out)
		}
		return dst, nil
	}
	if s.ID == nil && c.Key != "" {
		s.ID = func(r *record.Record) ([]byte, error) { return r.Key, nil }
	}
	s.Reader = reader
	return nil
}

func (b *binder) object(s *Sink, c object.Config) {
	r := &ObjectReader{URL: c.URL, Envelope: c.Envelope}
	if !c.Roll.Epoch {
		r.Age = c.Roll.Age
	}
	if c.Format == "parquet" && len(c.Schema) > 0 {
		r.Columns = []string{}
		for name, typ := range c.Schema {
			r.Columns = append(r.Columns, name)
			if strings.HasPrefix(typ, "timestamp") {
				r.Times = append(r.Times, name)
			}
		}
	}
	s.Reader = r
}

func (b *binder) http(s *Sink, c httpsink.Config) error {
	s.Reader = &HTTPReader{URL: b.listings[s.Name], ByKey: c.IdempotencyKey != "", Once: c.IdempotencyKey != ""}
	return b.identity(s, c.IdempotencyKey)
}
