import java.util.List;
import java.util.Map;
import org.elasticsearch.common.settings.Settings;
import org.elasticsearch.monitor.jvm.HotThreads;
import org.elasticsearch.node.InternalSettingsPreparer;
import org.elasticsearch.node.Node;
import org.elasticsearch.transport.Netty4Plugin;

/**
 * One node of Elasticsearch 7: the first argument is its folder, the others are settings (name=value).
 *
 * It runs until its standard input ends, hence never longer than the process that started it.
 */
public final class ElasticsearchNode extends Node {
    private ElasticsearchNode(Settings settings) {
        super(
            InternalSettingsPreparer.prepareEnvironment(settings, Map.of(), null, () -> "node"),
            List.of(Netty4Plugin.class),
            false
        );
    }

    public static void main(String[] arguments) throws Exception {
        Settings.Builder settings = Settings.builder().put("path.home", arguments[0]);
        for (int i = 1; i < arguments.length; i++) {
            String[] setting = arguments[i].split("=", 2);
            settings.put(setting[0], setting[1]);
        }
        // Without it, the reports are empty.
        HotThreads.initializeRuntimeMonitoring();
        try (Node node = new ElasticsearchNode(settings.build())) {
            node.start();
            while (System.in.read() >= 0) {
                // Nothing is said on it: only its end counts.
            }
        }
        System.exit(0);
    }
}
