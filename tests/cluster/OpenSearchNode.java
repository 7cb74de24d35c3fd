import org.codelibs.opensearch.runner.OpenSearchRunner;

/**
 * One OpenSearch node: the first argument is its folder, the others are settings (name=value). The system property
 * node.plugin names the class of a plugin.
 *
 * It runs until its standard input ends, hence never longer than the process that started it. The runner's own main
 * class takes no settings, puts all nodes into one process (where they share their CPU figure and their threads), and
 * wants ports below 9300.
 */
public final class OpenSearchNode {
    public static void main(String[] arguments) throws Exception {
        try (OpenSearchRunner runner = new OpenSearchRunner()) {
            runner.onBuild((number, settings) -> {
                for (int i = 1; i < arguments.length; i++) {
                    String[] setting = arguments[i].split("=", 2);
                    settings.put(setting[0], setting[1]);
                }
            });
            OpenSearchRunner.Configs configs = OpenSearchRunner.newConfigs().basePath(arguments[0]).numOfNode(1);
            String plugin = System.getProperty("node.plugin");
            runner.build(plugin == null ? configs : configs.pluginTypes(plugin));
            while (System.in.read() >= 0) {
                // Nothing is said on it: only its end counts.
            }
        }
        System.exit(0);
    }
}
