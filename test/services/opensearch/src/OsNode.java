import java.nio.file.*;
import java.util.*;
import java.util.concurrent.CountDownLatch;
import org.opensearch.common.settings.Settings;
import org.opensearch.env.Environment;
import org.opensearch.node.InternalSettingsPreparer;
import org.opensearch.node.Node;
import org.opensearch.plugins.Plugin;
import org.opensearch.transport.Netty4Plugin;

/** One embedded OpenSearch node with the netty4 HTTP transport: OsNode HOME PORT */
public class OsNode extends Node {
    OsNode(Environment env, Collection<Class<? extends Plugin>> plugins) { super(env, plugins, true); }

    public static void main(String[] a) throws Exception {
        Path home = Paths.get(a[0]).toAbsolutePath();
        Files.createDirectories(home.resolve("config"));
        String port = a[1];
        Settings s = Settings.builder()
            .put("path.home", home).put("path.data", home.resolve("data")).put("path.logs", home.resolve("logs"))
            .put("cluster.name", "exactly-test").put("node.name", "n1")
            .put("http.type", "netty4").put("transport.type", "netty4")
            .put("network.host", "127.0.0.1").put("http.port", port)
            .put("transport.port", String.valueOf(Integer.parseInt(port) + 100))
            .put("discovery.type", "single-node")
            .put("cluster.routing.allocation.disk.threshold_enabled", false)
            .put("node.store.allow_mmap", true)
            .put("bootstrap.memory_lock", false)
            .build();
        Environment env = InternalSettingsPreparer.prepareEnvironment(s, Collections.emptyMap(), home.resolve("config"), () -> "n1");
        OsNode n = new OsNode(env, List.of(Netty4Plugin.class, org.opensearch.analysis.common.CommonAnalysisPlugin.class, org.opensearch.painless.PainlessPlugin.class));
        CountDownLatch done = new CountDownLatch(1);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> { try { n.close(); } catch (Exception e) { e.printStackTrace(); } }));
        n.start();
        System.out.println("OsNode started on 127.0.0.1:" + port);
        done.await();
    }
}
