import com.fasterxml.jackson.annotation.JsonIgnoreProperties;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.ObjectReader;
import com.fasterxml.jackson.databind.ObjectWriter;
import java.math.BigDecimal;
import java.time.Duration;
import java.time.Instant;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.EmitStrategy;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.StreamJoined;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.processor.api.ContextualProcessor;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.WindowStore;

/**
 * The queries of Nexmark that the DSL has, as tests/nexmark/queries.py does them; until it is ended.
 *
 * Arguments: query, sink, the topics that the query reads, each by its name, settings. Event time is that of the events.
 * Behind an internal topic nobody says how far the slowest partition is, so a window there waits a minute for it.
 */
final class Nexmark {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Duration LATE = Duration.ofSeconds(3);
    private static final Duration BEHIND = Duration.ofMinutes(1);
    private static final Duration KEPT = Duration.ofDays(1);
    private static final Duration TEN_SECONDS = Duration.ofSeconds(10);
    private static final BigDecimal EUROS = new BigDecimal("0.908");
    private static final Pattern CHANNEL_ID = Pattern.compile("(&|^)channel_id=([^&]*)");
    private static final Map<String, String> LARGE = Map.of("apple", "0", "google", "1", "facebook", "2", "baidu", "3");
    private static final DateTimeFormatter MILLIS =
            DateTimeFormatter.ofPattern("yyyy-MM-dd'T'HH:mm:ss.SSS'Z'").withZone(ZoneOffset.UTC);
    private static final DateTimeFormatter MICROS =
            DateTimeFormatter.ofPattern("yyyy-MM-dd'T'HH:mm:ss.SSSSSS'Z'").withZone(ZoneOffset.UTC);

    private final Job job;
    private final StreamsBuilder builder = new StreamsBuilder();

    private Nexmark(Job job) {
        this.job = job;
    }

    @JsonIgnoreProperties(ignoreUnknown = true)
    public record Person(long id, String name, String city, String state, long dateTime) {}

    public record Auction(
            long id, String itemName, String description, long initialBid, long reserve, long dateTime, long expires,
            long seller, long category, String extra) {}

    public record Bid(
            long auction, long bidder, long price, String channel, String url, long dateTime, String extra) {
        BigDecimal euros() {
            return EUROS.multiply(BigDecimal.valueOf(price));
        }

        Passed passed() {
            return new Passed(auction, bidder, price, dateTime, extra);
        }
    }

    public record Side(long key, String value) {}

    public record Passed(long auction, long bidder, long price, long dateTime, String extra) {}

    public record InEuros(long auction, long bidder, BigDecimal price, long dateTime, String extra) {}

    public record Price(long auction, long price) {}

    public record Local(String name, String city, String state, long id) {}

    public record Hot(long auction, long num, String ended) {}

    public record NewUser(long id, String name, String started) {}

    public record Span(String start, String end) {
        static Span of(long start, long end) {
            return new Span(text(MILLIS, start), text(MILLIS, end));
        }
    }

    public record Session(String bidder, Span window, long bid_count) {}

    public record Enriched(long auction, long bidder, long price, long dateTime, String value) {}

    public record Calculated(
            long auction, long bidder, BigDecimal price, String bidTimeType, long dateTime, String extra,
            long c_counts) {}

    /** What is kept of an auction's day. */
    public record Prices(long total, long rank1, long rank2, long rank3, long min, long max, long sum) {
        Prices plus(long price) {
            return new Prices(
                    total + 1,
                    rank1 + (price < 10_000 ? 1 : 0),
                    rank2 + (price >= 10_000 && price < 1_000_000 ? 1 : 0),
                    rank3 + (price >= 1_000_000 ? 1 : 0),
                    Math.min(min, price),
                    Math.max(max, price),
                    sum + price);
        }
    }

    public record Statistics(
            String auction, Span window, long total_bids, long rank1_bids, long rank2_bids, long rank3_bids,
            long min_price, long max_price, double avg_price, long sum_price) {}

    public record Last(String bidder, String auction, Bid bid) {}

    /** A bid without its auction, which is the key. */
    public record Offer(long bidder, long price, String channel, String url, long dateTime, String extra) {
        private static final Comparator<Offer> GREATEST_FIRST = Comparator.comparingLong(Offer::price)
                .thenComparingLong(Offer::bidder)
                .thenComparing(Offer::channel)
                .thenComparing(Offer::url)
                .thenComparingLong(Offer::dateTime)
                .reversed();
    }

    public record TopTen(String auction, List<Offer> bids) {
        TopTen with(String key, Bid bid) {
            List<Offer> offers = new ArrayList<>(bids);
            offers.add(new Offer(bid.bidder(), bid.price(), bid.channel(), bid.url(), bid.dateTime(), bid.extra()));
            offers.sort(Offer.GREATEST_FIRST);
            return new TopTen(key, offers.subList(0, Math.min(10, offers.size())));
        }
    }

    /** Those of which `size` is the greatest so far. */
    public record Most(long size, List<Long> auctions) {
        Most with(Price auction) {
            if (auction.price() < size) {
                return this;
            }
            List<Long> all = new ArrayList<>(auction.price() == size ? auctions : List.of());
            all.add(auction.auction());
            return new Most(auction.price(), all);
        }
    }

    /** Those whose price is the greatest so far. */
    public record Highest(List<Passed> bids) {
        Highest with(Passed bid) {
            if (!bids.isEmpty() && bid.price() < bids.get(0).price()) {
                return this;
            }
            List<Passed> all = new ArrayList<>(!bids.isEmpty() && bid.price() == bids.get(0).price() ? bids : List.of());
            all.add(bid);
            return new Highest(all);
        }
    }

    public record Expanded(
            long auction, long bidder, long price, String channel, String url, long dateTime, String extra,
            String itemName, String description, long initialBid, long reserve, long opened, long expires, long seller,
            long category, String auction_extra) {}

    public record OfChannel(long auction, long bidder, long price, String channel, String channel_id) {}

    public record Folders(
            long auction, long bidder, long price, String channel, String dir1, String dir2, String dir3) {}

    public static void main(String[] arguments) throws InterruptedException {
        Job job = Job.parse(arguments);
        Nexmark nexmark = new Nexmark(job);
        nexmark.answer(job.argument("query"));
        job.run(nexmark.builder);
    }

    private void answer(String query) {
        switch (query) {
            case "q0" -> put(bids().mapValues(Bid::passed), Passed.class);
            case "q1" -> put(
                    bids().mapValues(bid -> new InEuros(
                            bid.auction(), bid.bidder(), bid.euros(), bid.dateTime(), bid.extra())),
                    InEuros.class);
            case "q2" -> put(
                    bids().filter((key, bid) -> bid.auction() % 123 == 0)
                            .mapValues(bid -> new Price(bid.auction(), bid.price())),
                    Price.class);
            case "q3" -> localItems();
            case "q5" -> hotItems();
            case "q7" -> highestBids();
            case "q8" -> newUsers();
            case "q11" -> sessions();
            case "q13" -> sideInput();
            case "q14" -> put(
                    bids().filter((key, bid) -> bid.euros().compareTo(BigDecimal.valueOf(1_000_000)) > 0
                                    && bid.euros().compareTo(BigDecimal.valueOf(50_000_000)) < 0)
                            .mapValues(Nexmark::calculated),
                    Calculated.class);
            case "q17" -> statistics();
            case "q18" -> lastBids();
            case "q19" -> put(
                    bids().groupByKey(Grouped.with(Serdes.String(), json(Bid.class)))
                            .aggregate(
                                    () -> new TopTen("", List.of()),
                                    (auction, bid, top) -> top.with(auction, bid),
                                    Materialized.with(Serdes.String(), json(TopTen.class)))
                            .toStream(),
                    TopTen.class);
            case "q20" -> put(
                    bids().join(
                            auctions().filter((key, auction) -> auction.category() == 10),
                            Nexmark::expanded,
                            JoinWindows.ofTimeDifferenceAndGrace(Duration.ofMinutes(1), LATE),
                            StreamJoined.with(Serdes.String(), json(Bid.class), json(Auction.class))),
                    Expanded.class);
            case "q21" -> put(
                    bids().mapValues(bid -> new OfChannel(
                                    bid.auction(), bid.bidder(), bid.price(), bid.channel(), channelId(bid)))
                            .filter((key, bid) -> bid.channel_id() != null),
                    OfChannel.class);
            case "q22" -> put(bids().mapValues(Nexmark::folders), Folders.class);
            default -> throw new IllegalArgumentException("no query " + query);
        }
    }

    private void localItems() {
        KStream<String, Person> sellers =
                persons().filter((key, person) -> List.of("OR", "ID", "CA").contains(person.state()));
        KStream<String, Local> local = auctions()
                .filter((key, auction) -> auction.category() == 10)
                .selectKey((key, auction) -> Long.toString(auction.seller()))
                .join(
                        sellers,
                        (auction, person) -> new Local(person.name(), person.city(), person.state(), auction.id()),
                        JoinWindows.ofTimeDifferenceAndGrace(Duration.ofHours(1), LATE),
                        StreamJoined.with(Serdes.String(), json(Auction.class), json(Person.class)).withName("first"));
        put(local.selectKey((key, row) -> Long.toString(row.id())), Local.class);
    }

    private void hotItems() {
        KStream<String, Price> counts = bids().groupByKey(Grouped.with(Serdes.String(), json(Bid.class)))
                .windowedBy(TimeWindows.ofSizeAndGrace(TEN_SECONDS, LATE).advanceBy(Duration.ofSeconds(2)))
                .emitStrategy(EmitStrategy.onWindowClose())
                .count(uncached(Serdes.Long()))
                .toStream()
                .process(ByEnd::new);
        KStream<String, Hot> hot = counts.groupByKey(Grouped.with("first", Serdes.String(), json(Price.class)))
                .windowedBy(TimeWindows.ofSizeAndGrace(Duration.ofSeconds(2), BEHIND))
                .emitStrategy(EmitStrategy.onWindowClose())
                .aggregate(
                        () -> new Most(0, List.of()),
                        (end, auction, most) -> most.with(auction),
                        uncached(json(Most.class)))
                .toStream()
                .flatMap((window, most) -> most.auctions().stream()
                        .map(auction -> KeyValue.pair(
                                Long.toString(auction), new Hot(auction, most.size(), window.key())))
                        .toList());
        put(hot, Hot.class);
    }

    /** Counts by when their window ends, at that time; the price is the count. */
    private static final class ByEnd extends ContextualProcessor<Windowed<String>, Long, String, Price> {
        @Override
        public void process(Record<Windowed<String>, Long> count) {
            long end = count.key().window().end();
            context().forward(new Record<>(
                    text(MICROS, end), new Price(Long.parseLong(count.key().key()), count.value()), end - 1));
        }
    }

    private void highestBids() {
        KStream<String, Passed> highest = bids().mapValues(Bid::passed)
                .groupBy((key, bid) -> "all", Grouped.with("first", Serdes.String(), json(Passed.class)))
                .windowedBy(TimeWindows.ofSizeAndGrace(TEN_SECONDS, BEHIND))
                .emitStrategy(EmitStrategy.onWindowClose())
                .aggregate(
                        () -> new Highest(List.of()),
                        (all, bid, best) -> best.with(bid),
                        uncached(json(Highest.class)))
                .toStream()
                .flatMap((window, best) -> best.bids().stream()
                        .map(bid -> KeyValue.pair(Long.toString(bid.auction()), bid))
                        .toList());
        put(highest, Passed.class);
    }

    private void newUsers() {
        KTable<Windowed<String>, String> persons = persons().mapValues(Person::name)
                .groupByKey(Grouped.with(Serdes.String(), Serdes.String()))
                .windowedBy(TimeWindows.ofSizeAndGrace(TEN_SECONDS, LATE))
                .reduce((before, name) -> name, Materialized.with(Serdes.String(), Serdes.String()));
        KTable<Windowed<String>, Long> sellers = auctions()
                .map((key, auction) -> KeyValue.pair(Long.toString(auction.seller()), 1L))
                .groupByKey(Grouped.with("first", Serdes.String(), Serdes.Long()))
                .windowedBy(TimeWindows.ofSizeAndGrace(TEN_SECONDS, BEHIND))
                .count(Materialized.with(Serdes.String(), Serdes.Long()));
        put(
                persons.join(sellers, (name, auctions) -> name)
                        .toStream()
                        .map((window, name) -> KeyValue.pair(
                                keyOf(window),
                                new NewUser(
                                        Long.parseLong(window.key()), name, text(MICROS, window.window().start())))),
                NewUser.class);
    }

    private void sessions() {
        KStream<String, Session> sessions = bids().map((key, bid) -> KeyValue.pair(Long.toString(bid.bidder()), ""))
                .groupByKey(Grouped.with("first", Serdes.String(), Serdes.String()))
                // Two bids that lie ten seconds apart are of one session here, and of two in SQL.
                .windowedBy(SessionWindows.ofInactivityGapAndGrace(TEN_SECONDS.minusMillis(1), BEHIND))
                .emitStrategy(EmitStrategy.onWindowClose())
                .count(Materialized.<String, Long, SessionStore<Bytes, byte[]>>with(Serdes.String(), Serdes.Long())
                        .withCachingDisabled()
                        .withRetention(KEPT))
                .toStream()
                .map((window, bids) -> KeyValue.pair(
                        window.key(),
                        new Session(
                                window.key(),
                                Span.of(
                                        window.window().start(), window.window().end() + TEN_SECONDS.toMillis()),
                                bids)));
        put(sessions, Session.class);
    }

    private void sideInput() {
        var side = builder.globalTable(
                job.argument("side_input"), Consumed.with(Serdes.String(), json(Side.class)));
        KStream<String, Enriched> found = bids().join(
                side,
                (key, bid) -> Long.toString(bid.auction() % 10_000),
                (bid, row) ->
                        new Enriched(bid.auction(), bid.bidder(), bid.price(), bid.dateTime(), row.value()));
        put(found, Enriched.class);
    }

    private void statistics() {
        KStream<String, Statistics> days = bids().groupByKey(Grouped.with(Serdes.String(), json(Bid.class)))
                .windowedBy(TimeWindows.ofSizeAndGrace(Duration.ofDays(1), LATE))
                .aggregate(
                        () -> new Prices(0, 0, 0, 0, Long.MAX_VALUE, Long.MIN_VALUE, 0),
                        (auction, bid, prices) -> prices.plus(bid.price()),
                        Materialized.with(Serdes.String(), json(Prices.class)))
                .toStream()
                .map((window, all) -> KeyValue.pair(
                        keyOf(window),
                        new Statistics(
                                window.key(), Span.of(window.window().start(), window.window().end()), all.total(),
                                all.rank1(), all.rank2(), all.rank3(), all.min(), all.max(),
                                (double) all.sum() / all.total(), all.sum())));
        put(days, Statistics.class);
    }

    private void lastBids() {
        KStream<String, Last> last = bids().groupBy(
                        (key, bid) -> bid.bidder() + "|" + bid.auction(),
                        Grouped.with("first", Serdes.String(), json(Bid.class)))
                .reduce(
                        (before, bid) -> bid.dateTime() >= before.dateTime() ? bid : before,
                        Materialized.with(Serdes.String(), json(Bid.class)))
                .toStream()
                .mapValues(bid -> new Last(Long.toString(bid.bidder()), Long.toString(bid.auction()), bid));
        put(last, Last.class);
    }

    private static Calculated calculated(Bid bid) {
        int hour = Instant.ofEpochMilli(bid.dateTime()).atOffset(ZoneOffset.UTC).getHour();
        String time = hour >= 8 && hour <= 18 ? "dayTime" : hour <= 6 || hour >= 20 ? "nightTime" : "otherTime";
        long counts = bid.extra().chars().filter(letter -> letter == 'c').count();
        return new Calculated(
                bid.auction(), bid.bidder(), bid.euros(), time, bid.dateTime(), bid.extra(), counts);
    }

    private static Expanded expanded(Bid bid, Auction auction) {
        return new Expanded(
                bid.auction(), bid.bidder(), bid.price(), bid.channel(), bid.url(), bid.dateTime(), bid.extra(),
                auction.itemName(), auction.description(), auction.initialBid(), auction.reserve(), auction.dateTime(),
                auction.expires(), auction.seller(), auction.category(), auction.extra());
    }

    private static String channelId(Bid bid) {
        String large = LARGE.get(bid.channel().toLowerCase(Locale.ROOT));
        if (large != null) {
            return large;
        }
        Matcher found = CHANNEL_ID.matcher(bid.url());
        return found.find() ? found.group(2) : null;
    }

    private static Folders folders(Bid bid) {
        String[] parts = bid.url().split("/", -1);
        return new Folders(bid.auction(), bid.bidder(), bid.price(), bid.channel(), parts[3], parts[4], parts[5]);
    }

    private KStream<String, Person> persons() {
        return stream("persons", Person.class, Person::dateTime);
    }

    private KStream<String, Auction> auctions() {
        return stream("auctions", Auction.class, Auction::dateTime);
    }

    private KStream<String, Bid> bids() {
        return stream("bids", Bid.class, Bid::dateTime);
    }

    private <T> KStream<String, T> stream(
            String topic, Class<T> type, java.util.function.ToLongFunction<T> time) {
        return builder.stream(
                job.argument(topic),
                Consumed.with(Serdes.String(), json(type))
                        .withTimestampExtractor(
                                (record, before) -> time.applyAsLong(type.cast(record.value()))));
    }

    private <T> void put(KStream<String, T> rows, Class<T> type) {
        rows.to(job.argument("sink"), Produced.with(Serdes.String(), json(type)));
    }

    /**
     * For windows that come out when they are over. The cache would be looked through from 1970 on, minute by minute,
     * before the first does. They are looked for once a second, and would be gone by then where time goes further.
     */
    private static <V> Materialized<String, V, WindowStore<Bytes, byte[]>> uncached(Serde<V> values) {
        return Materialized.<String, V, WindowStore<Bytes, byte[]>>with(Serdes.String(), values)
                .withCachingDisabled()
                .withRetention(KEPT);
    }

    private static String keyOf(Windowed<String> window) {
        return window.key() + "@" + window.window().start();
    }

    private static String text(DateTimeFormatter format, long time) {
        return format.format(Instant.ofEpochMilli(time));
    }

    private static <T> Serde<T> json(Class<T> type) {
        ObjectReader reader = JSON.readerFor(type);
        ObjectWriter writer = JSON.writerFor(type);
        return Serdes.serdeFrom(
                (topic, row) -> row == null ? null : Job.write(writer, row),
                (topic, value) -> value == null ? null : Job.<T>read(reader, value));
    }
}
