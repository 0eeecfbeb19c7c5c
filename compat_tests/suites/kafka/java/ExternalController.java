package org.apache.kafka.common.test.junit;

import java.util.concurrent.CompletableFuture;
import kafka.server.ControllerServer;
import org.apache.kafka.controller.Controller;
import org.mockito.Mockito;

/** What a test sees in place of Kafka's ControllerServer: it knows the ids of the topics. */
final class ExternalController {
    private ExternalController() {
    }

    static ControllerServer seen(ExternalCluster cluster) {
        Controller controller = ExternalBroker.proxy(Controller.class, (self, method, arguments) -> {
            if (method.getName().equals("findAllTopicIds"))
                return CompletableFuture.completedFuture(cluster.running().iterator().next().topicIds());
            throw cluster.looksInside("Controller." + method.getName());
        });
        return Mockito.mock(ControllerServer.class, called -> {
            if (called.getMethod().getName().equals("controller"))
                return controller;
            throw cluster.looksInside("ControllerServer." + called.getMethod().getName());
        });
    }
}
